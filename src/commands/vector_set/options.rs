//! Vectors, options and results of the commands on vector sets.

use std::ops::Deref;

use crate::args::{ArgWriter, ToArg, ToArgs};

use crate::commands::parts::{Flag, Named, Owned, parts_to_args, word_to_arg};
use crate::commands::record::{Field, record};
use crate::error::{Error, Result};
use crate::resp::Frame;
use crate::values::FromReply;

/// A vector, and how it is sent. A slice, array or `Vec` of `f32` is one, sent as its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Vector<'a> {
    /// As four bytes for each dimension.
    Fp32(&'a [f32]),
    /// As text for each dimension, which is longer and slower and can be read in a log.
    Values(&'a [f32]),
}

impl<'a> From<&'a [f32]> for Vector<'a> {
    fn from(vector: &'a [f32]) -> Self {
        Vector::Fp32(vector)
    }
}

impl<'a> From<&'a Vec<f32>> for Vector<'a> {
    fn from(vector: &'a Vec<f32>) -> Self {
        Vector::Fp32(vector)
    }
}

impl<'a, const N: usize> From<&'a [f32; N]> for Vector<'a> {
    fn from(vector: &'a [f32; N]) -> Self {
        Vector::Fp32(vector)
    }
}

impl ToArgs for Vector<'_> {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        match self {
            Vector::Fp32(vector) => {
                let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
                ("FP32", bytes).write_args(out);
            }
            Vector::Values(vector) => ("VALUES", vector.len(), *vector).write_args(out),
        }
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        match self {
            Vector::Fp32(_) => 2,
            Vector::Values(vector) => 2 + vector.len(),
        }
    }
}

/// How a server keeps vectors; the first one of a set decides for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VectorQuantization {
    /// As they are, four bytes for each dimension (NOQUANT).
    None,
    /// One byte for each dimension (Q8), which servers do by themselves.
    Q8,
    /// One bit for each dimension (BIN).
    Binary,
}

impl VectorQuantization {
    fn word(&self) -> &'static str {
        match self {
            VectorQuantization::None => "NOQUANT",
            VectorQuantization::Q8 => "Q8",
            VectorQuantization::Binary => "BIN",
        }
    }
}

word_to_arg!(VectorQuantization);

/// Options of VADD: see [`vadd_with`](super::VectorSetCommands::vadd_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct VaddOptions {
    reduce: Option<u64>,
    cas: bool,
    quantization: Option<VectorQuantization>,
    ef: Option<u64>,
    attributes: Option<Owned>,
    m: Option<u64>,
}

impl VaddOptions {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Projects the vectors onto so many dimensions; the same for all vectors of a set.
    pub fn reduce(mut self, dimensions: u64) -> Self {
        self.reduce = Some(dimensions);
        self
    }

    /// Looks for neighbours in a thread of the background, which leaves the server to others.
    pub fn cas(mut self) -> Self {
        self.cas = true;
        self
    }

    /// How the vectors are kept; the same for all vectors of a set.
    pub fn quantization(mut self, quantization: VectorQuantization) -> Self {
        self.quantization = Some(quantization);
        self
    }

    /// How thoroughly to look for neighbours; servers take 200 by themselves.
    pub fn ef(mut self, effort: u64) -> Self {
        self.ef = Some(effort);
        self
    }

    /// The attributes of the element, as JSON text.
    pub fn setattr(mut self, attributes: impl ToArg) -> Self {
        self.attributes = Some(Owned::new(attributes));
        self
    }

    /// How many neighbours each element has; servers take 16 by themselves. The same for all elements of a set.
    pub fn m(mut self, neighbours: u64) -> Self {
        self.m = Some(neighbours);
        self
    }

    /// What stands in front of the vector.
    pub(super) fn before(&self) -> impl ToArgs + use<> {
        Named("REDUCE", self.reduce)
    }

    fn parts(&self) -> impl ToArgs {
        (
            Flag("CAS", self.cas),
            self.quantization,
            Named("EF", self.ef),
            Named("SETATTR", self.attributes.as_ref()),
            Named("M", self.m),
        )
    }
}

/// What to look for: what is like a vector, or like an element of the set. Made from what a [`Vector`] is made from, or
/// with [`SimilarTo::element`].
#[derive(Clone, Debug, PartialEq)]
pub enum SimilarTo<'a> {
    /// Elements like this one, by its name. See [`SimilarTo::element`].
    Element(Vec<u8>),
    /// Elements whose vectors are like this one.
    Vector(Vector<'a>),
    /// An element that cannot be sent: the search fails.
    Unsendable,
}

impl SimilarTo<'_> {
    /// Elements like this one, by its name.
    pub fn element(element: impl ToArg) -> Self {
        Owned::new(element).0.map_or(SimilarTo::Unsendable, SimilarTo::Element)
    }
}

impl<'a, V: Into<Vector<'a>>> From<V> for SimilarTo<'a> {
    fn from(vector: V) -> Self {
        SimilarTo::Vector(vector.into())
    }
}

impl ToArgs for SimilarTo<'_> {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        match self {
            SimilarTo::Element(element) => ("ELE", element).write_args(out),
            SimilarTo::Vector(vector) => vector.write_args(out),
            SimilarTo::Unsendable => ("ELE", Owned::<Vec<u8>>(None)).write_args(out),
        }
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        match self {
            SimilarTo::Element(_) | SimilarTo::Unsendable => 2,
            SimilarTo::Vector(vector) => vector.count(),
        }
    }
}

/// Options of VSIM: see [`vsim_with`](super::VectorSetCommands::vsim_with).
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct VsimOptions {
    count: Option<u64>,
    epsilon: Option<f64>,
    ef: Option<u64>,
    filter: Option<Owned>,
    filter_ef: Option<u64>,
    truth: bool,
    nothread: bool,
}

impl VsimOptions {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many; servers take 10 by themselves. Zero is refused by the server.
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Only elements whose similarity is less than this below 1. Redis, since 8.2.
    pub fn epsilon(mut self, distance: f64) -> Self {
        self.epsilon = Some(distance);
        self
    }

    /// How thoroughly to search.
    pub fn ef(mut self, effort: u64) -> Self {
        self.ef = Some(effort);
        self
    }

    /// Only elements whose attributes fulfil an expression, such as `.year > 1950 and .genre == "drama"`.
    pub fn filter(mut self, expression: impl ToArg) -> Self {
        self.filter = Some(Owned::new(expression));
        self
    }

    /// At most how many elements to try a filter on; 0 is no limit.
    pub fn filter_ef(mut self, effort: u64) -> Self {
        self.filter_ef = Some(effort);
        self
    }

    /// Compares with each element, which is exact and slow.
    pub fn truth(mut self) -> Self {
        self.truth = true;
        self
    }

    /// Searches in the main thread of the server, which holds others up.
    pub fn nothread(mut self) -> Self {
        self.nothread = true;
        self
    }

    fn parts(&self) -> impl ToArgs {
        (
            Named("COUNT", self.count),
            Named("EPSILON", self.epsilon),
            Named("EF", self.ef),
            Named("FILTER", self.filter.as_ref()),
            Named("FILTER-EF", self.filter_ef),
            Flag("TRUTH", self.truth),
            Flag("NOTHREAD", self.nothread),
        )
    }
}

parts_to_args!(VaddOptions, VsimOptions);

/// A vector as a server keeps it: see [`vemb_raw`](super::VectorSetCommands::vemb_raw).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RawVector {
    /// How it is kept: `f32`, `int8` or `bin`.
    pub quantization: String,
    /// Its bytes, of length 1 as a vector.
    pub data: Vec<u8>,
    /// How long it was before.
    pub norm: f64,
    /// What 127 stands for in `int8`.
    pub range: Option<f64>,
}

impl FromReply for RawVector {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let Some(mut elements) = frame.as_elements() else { return Err(Error::unexpected("a vector", &frame)) };
        let mut next = || elements.next().ok_or_else(|| Error::custom("a vector with fewer parts"));
        Ok(RawVector {
            quantization: Field::field(next()?)?,
            data: FromReply::from_element(next()?)?,
            norm: f64::from_element(next()?)?,
            range: elements.next().map(f64::from_element).transpose()?,
        })
    }
}

record! {
    /// What a vector set is like: see [`vinfo`](super::VectorSetCommands::vinfo). What the server does not tell is 0 or
    /// empty.
    VectorSetInfo: "the fields of a vector set" {
        /// How vectors are kept: `f32`, `int8` or `bin`.
        "quant-type" quantization: String,
        /// How many dimensions they have.
        "vector-dim" dimensions: u64,
        /// How many elements there are.
        "size" size: u64,
        /// How many neighbours each has.
        "hnsw-m" m: u64,
        /// How many dimensions the vectors have that are projected onto fewer; 0 if they are not.
        "projection-input-dim" projection_input_dimensions: u64,
        /// The highest level of the graph.
        "max-level" max_level: u64,
        /// How many elements have attributes.
        "attributes-count" attributes_count: u64,
        /// The number of this vector set.
        "vset-uid" uid: u64,
        /// The number of the element that was added last.
        "hnsw-max-node-uid" max_node_uid: u64,
    }
}

/// An element that is similar to what was looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorMatch<T, A> {
    /// Its name.
    pub element: T,
    /// How similar it is, from 0 to 1.
    pub similarity: f64,
    /// Its attributes, if it has any.
    pub attributes: Option<A>,
}

/// The elements that VSIM has found, with similarities and attributes: a slice, and an iterator by value.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorMatches<T, A>(pub Vec<VectorMatch<T, A>>);

impl<T, A> Deref for VectorMatches<T, A> {
    type Target = [VectorMatch<T, A>];
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T, A> IntoIterator for VectorMatches<T, A> {
    type Item = VectorMatch<T, A>;
    type IntoIter = std::vec::IntoIter<Self::Item>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// In RESP3 a map from elements to arrays of similarity and attributes; in RESP2 all three in turn.
impl<T: FromReply, A: FromReply> FromReply for VectorMatches<T, A> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let Some(mut elements) = frame.as_elements() else { return Err(Error::unexpected("matches", &frame)) };
        let cut = || Error::custom("a match without similarity or attributes");
        let mut all = Vec::new();
        while let Some(element) = elements.next() {
            let next = elements.next().ok_or_else(cut)?;
            let (similarity, attributes) = if next.is_aggregate() {
                <(f64, Option<A>)>::from_element(next)?
            } else {
                (f64::from_element(next)?, Option::<A>::from_element(elements.next().ok_or_else(cut)?)?)
            };
            all.push(VectorMatch { element: T::from_element(element)?, similarity, attributes });
        }
        Ok(VectorMatches(all))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::Value;
    use crate::resp::Decoder;

    fn decode<T: FromReply>(wire: &str) -> Result<T> {
        let bytes = format!("{wire} ").replace(' ', "\r\n").into_bytes();
        let (frame, _) = Decoder::new().decode(&bytes)?.expect("it is whole");
        T::from_reply(frame)
    }

    #[test]
    fn matches_are_the_same_in_both_protocols() {
        for wire in ["*6 $1 a $1 1 $-1 $1 b $3 0.5 $2 {}", "%2 $1 a *2 ,1 _ $1 b *2 ,0.5 $2 {}"] {
            let matches = decode::<VectorMatches<String, String>>(wire).unwrap();
            assert_eq!((matches[0].element.as_str(), matches[0].similarity, &matches[0].attributes), ("a", 1.0, &None));
            assert_eq!((matches[1].similarity, matches[1].attributes.as_deref()), (0.5, Some("{}")));
            assert_eq!(matches.into_iter().count(), 2);
        }
        assert!(decode::<VectorMatches<String, String>>("*0").unwrap().is_empty());
        assert!(decode::<VectorMatches<String, String>>("*2 $1 a $1 1").is_err());
        assert!(decode::<VectorMatches<String, String>>("$1 a").is_err());
    }

    #[test]
    fn what_is_not_known_of_a_vector_set_is_kept() {
        for wire in [
            "*8 +quant-type +bin +vector-dim :3 +new *1 :7 +size :2",
            "%4 +quant-type +bin +new *1 :7 +vector-dim :3 +size :2",
        ] {
            let info = decode::<VectorSetInfo>(wire).unwrap();
            assert_eq!((info.quantization.as_str(), info.dimensions, info.size, info.m), ("bin", 3, 2, 0));
            assert_eq!(info.other, HashMap::from([("new".into(), Value::Array(vec![Value::Integer(7)]))]));
        }
        assert_eq!(decode::<VectorSetInfo>("*2 +size :2").unwrap().size, 2);
        assert_eq!(decode::<Option<VectorSetInfo>>("*-1").unwrap(), None);
    }
}
