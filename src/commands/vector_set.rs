//! Vector sets: elements, each with a vector, found by how similar these are.

mod options;

use crate::args::{ToArg, cmd};
use crate::execute::Execute;
use crate::values::FromReply;

pub use options::{
    RawVector, SimilarTo, VaddOptions, Vector, VectorMatch, VectorMatches, VectorQuantization, VectorSetInfo,
    VsimOptions,
};

/// The neighbours of an element in a vector set, one list for each level of the graph, the lowest level last.
pub type VectorLinks<T> = Vec<Vec<T>>;

/// Commands on vector sets. Redis, since 8.0.
///
/// Vectors are lists of `f32`, sent as their bytes unless asked otherwise (see [`Vector`]). An element may have attributes,
/// which are JSON text. A key that does not exist is an empty vector set, and one that becomes empty is gone. On a key of
/// another type each command fails with `WRONGTYPE`.
///
/// ```no_run
/// # fn main() -> redefer::Result<()> {
/// # let conn = redefer::Connection::open("redis://localhost")?;
/// use redefer::commands::{SimilarTo, VaddOptions, VsimOptions};
/// use redefer::prelude::*;
///
/// conn.vadd("words", &[0.1, 0.9, 0.3], "apple").wait()?;
/// conn.vadd_with("words", &[0.2, 0.8, 0.3], "pear", &VaddOptions::new().setattr(r#"{"fruit": true}"#)).wait()?;
///
/// // What is like a vector, or like an element.
/// let words: Vec<String> = conn.vsim("words", &[0.1, 0.9, 0.2]).wait()?;
/// let like_apple = SimilarTo::element("apple");
/// let fruit = VsimOptions::new().count(3).filter(".fruit == true");
/// for pair in conn.vsim_withscores::<String>("words", like_apple, &fruit) {
///     let (word, similarity) = pair?;
///     println!("{word}: {similarity}");
/// }
/// # Ok(())
/// # }
/// ```
pub trait VectorSetCommands: Execute {
    /// Adds an element with its vector, or gives it another one. The reply is whether it was added. The first vector of a
    /// set decides on the dimensions of all.
    ///
    /// [VADD](https://redis.io/docs/latest/commands/vadd/)
    fn vadd<'v>(self, key: impl ToArg, vector: impl Into<Vector<'v>>, element: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("VADD").key(key).options(vector.into()).arg(element))
    }

    /// Like [`vadd`](VectorSetCommands::vadd), with options.
    ///
    /// [VADD](https://redis.io/docs/latest/commands/vadd/)
    fn vadd_with<'v>(
        self,
        key: impl ToArg,
        vector: impl Into<Vector<'v>>,
        element: impl ToArg,
        options: &VaddOptions,
    ) -> Self::Reply<bool> {
        self.execute(
            cmd("VADD").key(key).options(options.before()).options(vector.into()).arg(element).options(options),
        )
    }

    /// How many elements there are.
    ///
    /// [VCARD](https://redis.io/docs/latest/commands/vcard/)
    fn vcard(self, key: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("VCARD").key(key))
    }

    /// How many dimensions the vectors have, after [`reduce`](VaddOptions::reduce); an error if there is no such key.
    ///
    /// [VDIM](https://redis.io/docs/latest/commands/vdim/)
    fn vdim(self, key: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("VDIM").key(key))
    }

    /// The vector of an element, about as it was added; `None` if there is no such element.
    ///
    /// [VEMB](https://redis.io/docs/latest/commands/vemb/)
    fn vemb(self, key: impl ToArg, element: impl ToArg) -> Self::Reply<Option<Vec<f32>>> {
        self.execute(cmd("VEMB").key(key).arg(element))
    }

    /// The vector of an element as the server keeps it; `None` if there is no such element.
    ///
    /// [VEMB](https://redis.io/docs/latest/commands/vemb/)
    fn vemb_raw(self, key: impl ToArg, element: impl ToArg) -> Self::Reply<Option<RawVector>> {
        self.execute(cmd("VEMB").key(key).arg(element).arg("RAW"))
    }

    /// The attributes of an element, as JSON text; nil if there is no such element, or it has none.
    ///
    /// [VGETATTR](https://redis.io/docs/latest/commands/vgetattr/)
    fn vgetattr<T: FromReply>(self, key: impl ToArg, element: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("VGETATTR").key(key).arg(element))
    }

    /// What a vector set is like; `None` if there is no such key.
    ///
    /// [VINFO](https://redis.io/docs/latest/commands/vinfo/)
    fn vinfo(self, key: impl ToArg) -> Self::Reply<Option<VectorSetInfo>> {
        self.execute(cmd("VINFO").key(key))
    }

    /// Whether there is such an element.
    ///
    /// [VISMEMBER](https://redis.io/docs/latest/commands/vismember/)
    fn vismember(self, key: impl ToArg, element: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("VISMEMBER").key(key).arg(element))
    }

    /// The neighbours of an element in the graph by which the server searches; `None` if there is no such element.
    ///
    /// [VLINKS](https://redis.io/docs/latest/commands/vlinks/)
    fn vlinks<T: FromReply>(self, key: impl ToArg, element: impl ToArg) -> Self::Reply<Option<VectorLinks<T>>> {
        self.execute(cmd("VLINKS").key(key).arg(element))
    }

    /// Like [`vlinks`](VectorSetCommands::vlinks), each neighbour with its similarity.
    ///
    /// [VLINKS](https://redis.io/docs/latest/commands/vlinks/)
    fn vlinks_withscores<T: FromReply>(
        self,
        key: impl ToArg,
        element: impl ToArg,
    ) -> Self::Reply<Option<VectorLinks<(T, f64)>>> {
        self.execute(cmd("VLINKS").key(key).arg(element).arg("WITHSCORES"))
    }

    /// Any element; nil if there is none.
    ///
    /// [VRANDMEMBER](https://redis.io/docs/latest/commands/vrandmember/)
    fn vrandmember<T: FromReply>(self, key: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("VRANDMEMBER").key(key))
    }

    /// Up to `count` different elements; or, if it is negative, exactly so many, of which some may be the same. Never nil.
    ///
    /// [VRANDMEMBER](https://redis.io/docs/latest/commands/vrandmember/)
    fn vrandmember_count<T: FromReply>(self, key: impl ToArg, count: i64) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("VRANDMEMBER").key(key).arg(count))
    }

    /// Removes an element. The reply is whether it was there.
    ///
    /// [VREM](https://redis.io/docs/latest/commands/vrem/)
    fn vrem(self, key: impl ToArg, element: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("VREM").key(key).arg(element))
    }

    /// Gives an element other attributes, which are JSON text; an empty one removes them. The reply is whether there is
    /// such an element.
    ///
    /// [VSETATTR](https://redis.io/docs/latest/commands/vsetattr/)
    fn vsetattr(self, key: impl ToArg, element: impl ToArg, attributes: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("VSETATTR").key(key).arg(element).arg(attributes))
    }

    /// The elements that are most similar to a vector or to an element, which is then the first of them; ten, the most
    /// similar first. Never nil; an error if there is no such element.
    ///
    /// [VSIM](https://redis.io/docs/latest/commands/vsim/)
    fn vsim<'v, T: FromReply>(self, key: impl ToArg, to: impl Into<SimilarTo<'v>>) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("VSIM").key(key).options(to.into()))
    }

    /// Like [`vsim`](VectorSetCommands::vsim), with options.
    ///
    /// [VSIM](https://redis.io/docs/latest/commands/vsim/)
    fn vsim_with<'v, T: FromReply>(
        self,
        key: impl ToArg,
        to: impl Into<SimilarTo<'v>>,
        options: &VsimOptions,
    ) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("VSIM").key(key).options(to.into()).options(options))
    }

    /// Like [`vsim_with`](VectorSetCommands::vsim_with), each element with its similarity, from 0 to 1.
    ///
    /// [VSIM](https://redis.io/docs/latest/commands/vsim/)
    fn vsim_withscores<'v, T: FromReply>(
        self,
        key: impl ToArg,
        to: impl Into<SimilarTo<'v>>,
        options: &VsimOptions,
    ) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("VSIM").key(key).options(to.into()).arg("WITHSCORES").options(options))
    }

    /// Like [`vsim_with`](VectorSetCommands::vsim_with), each element with its attributes, if it has any. Redis, since
    /// 8.2.
    ///
    /// [VSIM](https://redis.io/docs/latest/commands/vsim/)
    fn vsim_withattribs<'v, T: FromReply, A: FromReply>(
        self,
        key: impl ToArg,
        to: impl Into<SimilarTo<'v>>,
        options: &VsimOptions,
    ) -> Self::MultiBulk<(T, Option<A>)> {
        self.execute_multi(cmd("VSIM").key(key).options(to.into()).arg("WITHATTRIBS").options(options))
    }

    /// Like [`vsim_with`](VectorSetCommands::vsim_with), each element with its similarity and its attributes. Redis, since
    /// 8.2.
    ///
    /// [VSIM](https://redis.io/docs/latest/commands/vsim/)
    fn vsim_withscores_withattribs<'v, T: FromReply, A: FromReply>(
        self,
        key: impl ToArg,
        to: impl Into<SimilarTo<'v>>,
        options: &VsimOptions,
    ) -> Self::Reply<VectorMatches<T, A>> {
        self.execute(cmd("VSIM").key(key).options(to.into()).arg("WITHSCORES").arg("WITHATTRIBS").options(options))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;

    impl VectorSetCommands for &Recorder {}

    #[test]
    fn vector_set_commands_are_encoded_with_their_keys() {
        assert_eq!(sent(|on| on.vadd("k", &[1.0, 2.0], "e")), "VADD [k] FP32 \0\0\u{fffd}?\0\0\0@ e");
        assert_eq!(sent(|on| on.vadd("k", Vector::Values(&[0.1, 2.0]), "e")), "VADD [k] VALUES 2 0.1 2 e");
        let options = VaddOptions::new();
        assert_eq!(sent(|on| on.vadd_with("k", &vec![0.0], "e", &options)), "VADD [k] FP32 \0\0\0\0 e");
        let options = options.reduce(1).cas().quantization(VectorQuantization::Binary).ef(9).setattr("{}").m(8);
        assert_eq!(
            sent(|on| on.vadd_with("k", Vector::Values(&[1.0, 2.0]), "e", &options)),
            "VADD [k] REDUCE 1 VALUES 2 1 2 e CAS BIN EF 9 SETATTR {} M 8"
        );
        assert_eq!(sent(|on| on.vcard("k")), "VCARD [k]");
        assert_eq!(sent(|on| on.vdim("k")), "VDIM [k]");
        assert_eq!(sent(|on| on.vemb("k", "e")), "VEMB [k] e");
        assert_eq!(sent(|on| on.vemb_raw("k", "e")), "VEMB [k] e RAW");
        assert_eq!(sent(|on| on.vgetattr::<String>("k", "e")), "VGETATTR [k] e");
        assert_eq!(sent(|on| on.vinfo("k")), "VINFO [k]");
        assert_eq!(sent(|on| on.vismember("k", "e")), "VISMEMBER [k] e");
        assert_eq!(sent(|on| on.vlinks::<String>("k", "e")), "VLINKS [k] e");
        assert_eq!(sent(|on| on.vlinks_withscores::<String>("k", "e")), "VLINKS [k] e WITHSCORES");
        assert_eq!(sent(|on| on.vrandmember::<String>("k")), "VRANDMEMBER [k]");
        assert_eq!(sent(|on| on.vrandmember_count::<String>("k", -2)), "VRANDMEMBER [k] -2");
        assert_eq!(sent(|on| on.vrem("k", "e")), "VREM [k] e");
        assert_eq!(sent(|on| on.vsetattr("k", "e", "{}")), "VSETATTR [k] e {}");
    }

    #[test]
    fn searches_for_similar_elements_are_encoded_with_their_keys() {
        let to = || SimilarTo::element("e");
        let all = VsimOptions::new().count(3).epsilon(0.5).ef(9).filter(".a > 1").filter_ef(7).truth().nothread();
        let options = "COUNT 3 EPSILON 0.5 EF 9 FILTER .a > 1 FILTER-EF 7 TRUTH NOTHREAD";
        assert_eq!(sent(|on| on.vsim::<String>("k", to())), "VSIM [k] ELE e");
        assert_eq!(sent(|on| on.vsim::<String>("k", &[0.0][..])), "VSIM [k] FP32 \0\0\0\0");
        assert_eq!(sent(|on| on.vsim::<String>("k", Vector::Values(&[0.5]))), "VSIM [k] VALUES 1 0.5");
        assert_eq!(sent(|on| on.vsim_with::<String>("k", to(), &all)), format!("VSIM [k] ELE e {options}"));
        assert_eq!(
            sent(|on| on.vsim_withscores::<String>("k", to(), &all)),
            format!("VSIM [k] ELE e WITHSCORES {options}")
        );
        assert_eq!(
            sent(|on| on.vsim_withattribs::<String, String>("k", to(), &VsimOptions::new())),
            "VSIM [k] ELE e WITHATTRIBS"
        );
        assert_eq!(
            sent(|on| on.vsim_withscores_withattribs::<String, String>("k", to(), &all)),
            format!("VSIM [k] ELE e WITHSCORES WITHATTRIBS {options}")
        );
    }
}
