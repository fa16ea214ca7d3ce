//! What is many values: lists, sets, maps, arrays and tuples.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::iter::FusedIterator;
use std::marker::PhantomData;

use super::FromReply;
use super::from_reply::mismatch;
use crate::error::{Error, Result};
use crate::resp::{Elements, Frame};

/// How the items of an aggregate lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Each element is an item.
    Single,
    /// Two elements make an item, which is a pair.
    Flat,
}

impl Layout {
    /// The layout of items of type `T`: the one place where it is decided how pairs come.
    ///
    /// It depends on the frame alone, since neither the protocol nor the command tells. A map is flat. So is an array
    /// or a set whose first element is no aggregate: `*4[$'a', $'1', $'b', $'2']`. If it is one,
    /// there is one for each pair: `*2[*2[$'a', $'1'], *2[$'b', $'2']]`.
    ///
    /// `elements` is what the header announces, a pair of a map counting as two. Attributes and pushes are no elements:
    /// `first_is_aggregate` looks behind them. It is called only where the answer matters.
    ///
    /// # Errors
    ///
    /// When the number of elements is odd where they are to be pairs.
    #[inline]
    pub(crate) fn of<T: FromReply>(
        is_map: bool,
        elements: usize,
        first_is_aggregate: impl FnOnce() -> bool,
    ) -> Result<Self> {
        if !T::PAIR || (!is_map && elements != 0 && first_is_aggregate()) {
            Ok(Layout::Single)
        } else if elements.is_multiple_of(2) {
            Ok(Layout::Flat)
        } else {
            Err(odd())
        }
    }

    /// How many items so many elements are.
    #[inline]
    pub(crate) fn items(self, elements: usize) -> usize {
        match self {
            Layout::Single => elements,
            Layout::Flat => elements / 2,
        }
    }
}

#[cold]
#[inline(never)]
fn odd() -> Error {
    mismatch("pairs", "an odd number of elements")
}

/// The items of an aggregate, decoded one by one as the iterator advances.
///
/// An item that cannot be decoded is an error, after which the next item comes as if nothing had happened.
#[derive(Clone, Debug)]
pub(crate) struct Items<'a, T> {
    elements: Elements<'a>,
    layout: Layout,
    items: PhantomData<fn() -> T>,
}

impl<'a, T: FromReply> Items<'a, T> {
    /// # Errors
    ///
    /// When the frame is not an aggregate, or its elements are to be pairs and are not even in number.
    #[inline]
    pub(crate) fn new(frame: Frame<'a>) -> Result<Self> {
        let Some(elements) = frame.as_elements() else {
            return Err(Error::unexpected(if T::PAIR { "pairs" } else { "an array" }, &frame));
        };
        let first_is_aggregate = || elements.peek().is_some_and(|first| first.is_aggregate());
        let layout = Layout::of::<T>(matches!(frame, Frame::Map(_)), elements.len(), first_is_aggregate)?;
        Ok(Items::with_layout(elements, layout))
    }

    /// The items that are left of an aggregate whose layout is known.
    #[inline]
    pub(crate) fn with_layout(elements: Elements<'a>, layout: Layout) -> Self {
        Items { elements, layout, items: PhantomData }
    }

    /// How many items are left.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.layout.items(self.elements.len())
    }

    /// How many items to make room for at first. The elements are all there, so that their number is no lie; but one of
    /// three bytes may make an item of three hundred. So the room takes no more memory than the frame itself, or a
    /// page. What is longer grows as usual.
    fn room(&self) -> usize {
        const PAGE: usize = 4096;
        let bytes = self.elements.rest().len().max(PAGE);
        self.len().min(bytes / size_of::<T>().max(1))
    }
}

impl<T: FromReply> Iterator for Items<'_, T> {
    type Item = Result<T>;

    #[inline]
    fn next(&mut self) -> Option<Result<T>> {
        let first = self.elements.next()?;
        if !T::PAIR || self.layout == Layout::Single {
            return Some(T::from_element(first));
        }
        Some(self.elements.next().map_or_else(|| Err(odd()), |second| T::from_pair(first, second)))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let (_, most) = self.elements.size_hint();
        (0, most)
    }
}

impl<T: FromReply> FusedIterator for Items<'_, T> {}

impl<T: FromReply> FromReply for Vec<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let items = Items::new(frame)?;
        let mut all = Vec::with_capacity(items.room());
        for item in items {
            all.push(item?);
        }
        Ok(all)
    }
}

impl<T: FromReply> FromReply for Box<[T]> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        Vec::from_reply(frame).map(Vec::into_boxed_slice)
    }
}

impl<T: FromReply> FromReply for VecDeque<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        Vec::from_reply(frame).map(VecDeque::from)
    }
}

impl<T: FromReply + Ord> FromReply for BTreeSet<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        Items::new(frame)?.collect()
    }
}

impl<T: FromReply + Eq + Hash, S: BuildHasher + Default> FromReply for HashSet<T, S> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let items = Items::new(frame)?;
        let mut all = HashSet::with_capacity_and_hasher(items.room(), S::default());
        for item in items {
            all.insert(item?);
        }
        Ok(all)
    }
}

/// Of equal keys, the last one counts.
impl<K: FromReply + Ord, V: FromReply> FromReply for BTreeMap<K, V> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        Items::<(K, V)>::new(frame)?.collect()
    }
}

/// Of equal keys, the last one counts.
impl<K: FromReply + Eq + Hash, V: FromReply, S: BuildHasher + Default> FromReply for HashMap<K, V, S> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let items = Items::<(K, V)>::new(frame)?;
        let mut all = HashMap::with_capacity_and_hasher(items.room(), S::default());
        for item in items {
            let (key, value) = item?;
            all.insert(key, value);
        }
        Ok(all)
    }
}

/// The error when there are `got` elements and not `wanted`, if that is so.
#[inline]
fn exactly(wanted: usize, got: usize, expected: &'static str) -> Result<()> {
    if got == wanted {
        Ok(())
    } else {
        Err(mismatch(expected, if got < wanted { "fewer elements" } else { "more elements" }))
    }
}

/// Exactly `N` items.
impl<T: FromReply, const N: usize> FromReply for [T; N] {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        const EXPECTED: &str = "an array of the length asked for";
        let mut items = Items::<T>::new(frame)?;
        exactly(N, items.len(), EXPECTED)?;
        let mut failure = None;
        let slots: [Option<T>; N] = std::array::from_fn(|_| {
            if failure.is_some() {
                return None;
            }
            let item = items.next().unwrap_or_else(|| Err(mismatch(EXPECTED, "fewer elements")));
            item.map_err(|error| failure = Some(error)).ok()
        });
        match failure {
            None => Ok(slots.map(|slot| slot.expect("every slot is filled unless there is a failure"))),
            Some(error) => Err(error),
        }
    }
}

/// The elements of an aggregate that has exactly so many.
#[inline]
fn fields<'a>(frame: Frame<'a>, wanted: usize, expected: &'static str) -> Result<Elements<'a>> {
    let elements = frame.as_elements().ok_or_else(|| Error::unexpected(expected, &frame))?;
    exactly(wanted, elements.len(), expected)?;
    Ok(elements)
}

#[inline]
fn field<T: FromReply>(elements: &mut Elements<'_>, expected: &'static str) -> Result<T> {
    elements.next().map_or_else(|| Err(mismatch(expected, "fewer elements")), T::from_element)
}

/// A pair: in a list, it may come as one element or as two.
impl<A: FromReply, B: FromReply> FromReply for (A, B) {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        const EXPECTED: &str = "an array of 2 elements";
        if Self::is_nil(&frame) {
            return Err(Error::Nil);
        }
        let mut elements = fields(frame, 2, EXPECTED)?;
        Ok((field(&mut elements, EXPECTED)?, field(&mut elements, EXPECTED)?))
    }

    const PAIR: bool = true;

    #[inline]
    fn from_pair(first: Frame<'_>, second: Frame<'_>) -> Result<Self> {
        Ok((A::from_element(first)?, B::from_element(second)?))
    }

    /// ZPOPMIN without a count answers a missing key with an empty array.
    #[inline]
    fn is_nil(frame: &Frame<'_>) -> bool {
        match frame {
            Frame::Array(elements) => elements.is_empty(),
            other => other.is_nil(),
        }
    }
}

macro_rules! tuples {
    ($($n:literal: $($type:ident)+;)*) => {$(
        impl<$($type: FromReply),+> FromReply for ($($type,)+) {
            fn from_reply(frame: Frame<'_>) -> Result<Self> {
                const EXPECTED: &str = concat!("an array of ", $n, " elements");
                let mut elements = fields(frame, $n, EXPECTED)?;
                Ok(($(field::<$type>(&mut elements, EXPECTED)?,)+))
            }
        }
    )*};
}

tuples! {
    1: A;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E F;
    7: A B C D E F G;
    8: A B C D E F G H;
    9: A B C D E F G H I;
    10: A B C D E F G H I J;
    11: A B C D E F G H I J K;
    12: A B C D E F G H I J K L;
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decode, refusal, with_frame};
    use super::*;
    use crate::error::ServerError;

    fn owned<V: Clone>(pairs: &[(&str, V)]) -> Vec<(String, V)> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.clone())).collect()
    }

    #[test]
    fn pairs_are_the_same_whether_flat_nested_or_a_map() {
        let fields = owned(&[("a", 1), ("b", 2)]);
        for wire in [
            "*4 $1 a $1 1 $1 b $1 2",       // HGETALL in RESP2, HSCAN in both
            "%2 $1 a $1 1 $1 b $1 2",       // HGETALL in RESP3
            "*2 *2 $1 a $1 1 *2 $1 b $1 2", // HRANDFIELD WITHVALUES in RESP3
            "%2 +a :1 +b :2",               // VINFO in RESP3
            "*2 ~2 $1 a $1 1 %1 $1 b $1 2", // nobody, so far
        ] {
            assert_eq!(decode::<Vec<(String, i64)>>(wire).unwrap(), fields);
            assert_eq!(decode::<VecDeque<(String, i64)>>(wire).unwrap(), fields);
            assert_eq!(*decode::<Box<[(String, i64)]>>(wire).unwrap(), fields);
            assert_eq!(decode::<[(String, i64); 2]>(wire).unwrap(), *fields);
            assert_eq!(decode::<HashMap<String, i64>>(wire).unwrap(), fields.iter().cloned().collect());
            assert_eq!(decode::<BTreeMap<String, i64>>(wire).unwrap(), fields.iter().cloned().collect());
            assert_eq!(decode::<HashSet<(String, i64)>>(wire).unwrap(), fields.iter().cloned().collect());
            assert_eq!(decode::<BTreeSet<(String, i64)>>(wire).unwrap(), fields.iter().cloned().collect());
            assert_eq!(with_frame(wire, |frame| Items::<(String, i64)>::new(frame).unwrap().len()), 2);
        }
    }

    #[test]
    fn scores_are_the_same_in_both_protocols() {
        let both = owned(&[("a", 1.0), ("b", 2.5)]);
        for wire in ["*4 $1 a $1 1 $1 b $3 2.5", "*2 *2 $1 a ,1 *2 $1 b ,2.5"] {
            assert_eq!(decode::<Vec<(String, f64)>>(wire).unwrap(), both, "ZRANGE z 0 -1 WITHSCORES");
        }
        for wire in ["*2 $1 a $1 1", "*1 *2 $1 a ,1"] {
            assert_eq!(decode::<Vec<(String, f64)>>(wire).unwrap(), owned(&[("a", 1.0)]), "ZPOPMIN z 1");
            assert_eq!(decode::<Vec<(String, i64)>>(wire).unwrap(), owned(&[("a", 1)]), "and as an integer");
        }
        for wire in ["*2 $1 a $1 1", "*2 $1 a ,1"] {
            assert_eq!(decode::<(String, f64)>(wire).unwrap(), ("a".into(), 1.0), "ZPOPMIN z");
        }
        for wire in [
            "*10 $1 b $4 -inf $1 e $3 0.1 $1 c $1 3 $1 d $6 1e+300 $1 a $3 inf",
            "*5 *2 $1 b ,-inf *2 $1 e ,0.1 *2 $1 c ,3 *2 $1 d ,1e+300 *2 $1 a ,inf",
        ] {
            let all = [("b", f64::NEG_INFINITY), ("e", 0.1), ("c", 3.0), ("d", 1e300), ("a", f64::INFINITY)];
            assert_eq!(decode::<Vec<(String, f64)>>(wire).unwrap(), owned(&all), "ZRANGE zi 0 -1 WITHSCORES");
        }
        for wire in ["*2 $1 1 $-1", "*2 ,1 _"] {
            assert_eq!(decode::<Vec<Option<f64>>>(wire).unwrap(), [Some(1.0), None], "ZMSCORE z a none");
        }
        for wire in ["*2 :0 $1 1", "*2 :0 ,1"] {
            assert_eq!(decode::<Option<(i64, f64)>>(wire).unwrap(), Some((0, 1.0)), "ZRANK z a WITHSCORE");
        }
        for wire in ["*2 $1 z *1 *2 $1 a $1 1", "*2 $1 z *1 *2 $1 a ,1"] {
            let popped = decode::<Option<(String, Vec<(String, f64)>)>>(wire).unwrap();
            assert_eq!(popped, Some(("z".into(), owned(&[("a", 1.0)]))), "ZMPOP 1 z MIN");
        }
        assert_eq!(decode::<(String, String, f64)>("*3 $1 z $1 a ,1").unwrap(), ("z".into(), "a".into(), 1.0));
    }

    #[test]
    fn an_empty_array_is_an_empty_list_but_no_pair() {
        for wire in ["*0", "%0", "~0"] {
            assert_eq!(decode::<Vec<String>>(wire).unwrap(), [""; 0]);
            assert_eq!(decode::<Option<Vec<(String, f64)>>>(wire).unwrap(), Some(vec![]));
            assert_eq!(decode::<HashMap<String, String>>(wire).unwrap(), HashMap::new());
            assert_eq!(decode::<[String; 0]>(wire).unwrap(), [""; 0]);
        }
        assert_eq!(decode::<Option<(String, f64)>>("*0").unwrap(), None, "ZPOPMIN none");
        assert!(matches!(decode::<(String, f64)>("*0"), Err(Error::Nil)));
        assert!(decode::<Option<(String, String, f64)>>("*0").is_err(), "three elements or nil");
        assert_eq!(decode::<Option<(String, String, f64)>>("*-1").unwrap(), None, "BZPOPMIN none 0.05");
    }

    #[test]
    fn an_odd_number_of_elements_is_no_list_of_pairs() {
        let says = "unexpected reply: expected pairs, got an odd number of elements";
        assert_eq!(refusal::<Vec<(String, i64)>>("*3 $1 a $1 1 $1 b"), says);
        assert_eq!(refusal::<HashMap<String, i64>>("~1 $1 a"), says);
        assert_eq!(refusal::<[(String, i64); 1]>("*1 $1 a"), says);
        let nested = "unexpected reply: expected an array of 2 elements, got";
        assert_eq!(refusal::<Vec<(String, i64)>>("*1 *1 $1 a"), format!("{nested} fewer elements"));
        assert_eq!(refusal::<Vec<(String, i64)>>("*1 *3 $1 a :1 :2"), format!("{nested} more elements"));
        assert_eq!(refusal::<Vec<(String, i64)>>("*2 *2 $1 a :1 $1 b"), format!("{nested} a bulk string"));
        let none = "unexpected reply: expected pairs, got a bulk string";
        assert_eq!(refusal::<HashMap<String, i64>>("$1 a"), none);
    }

    #[test]
    fn sets_come_as_sets_or_arrays() {
        for wire in ["*2 $1 a $1 b", "~2 $1 a $1 b"] {
            assert_eq!(decode::<HashSet<String>>(wire).unwrap(), HashSet::from(["a".into(), "b".into()]));
            assert_eq!(decode::<BTreeSet<String>>(wire).unwrap(), BTreeSet::from(["a".into(), "b".into()]));
            assert_eq!(decode::<Vec<String>>(wire).unwrap(), ["a", "b"]);
        }
        for wire in ["*4 $1 a $1 1 $1 b $1 2", "%2 $1 a $1 1 $1 b $1 2"] {
            assert_eq!(decode::<Vec<String>>(wire).unwrap(), ["a", "1", "b", "2"], "flat for those who want it flat");
        }
    }

    #[test]
    fn streams_are_the_same_in_both_protocols() {
        type Entries = Vec<(String, Vec<(String, String)>)>;
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let entries = vec![("1-1".into(), vec![pair("f", "v"), pair("g", "w")]), ("2-1".into(), vec![pair("f", "v2")])];
        let body = "*2 *2 $3 1-1 *4 $1 f $1 v $1 g $1 w *2 $3 2-1 *2 $1 f $2 v2";
        assert_eq!(decode::<Entries>(body).unwrap(), entries, "XRANGE x - +");
        for wire in [format!("*1 *2 $1 x {body}"), format!("%1 $1 x {body}")] {
            let read = decode::<Option<Vec<(String, Entries)>>>(&wire).unwrap();
            assert_eq!(read, Some(vec![("x".into(), entries.clone())]), "XREAD STREAMS x 0");
            assert_eq!(decode::<HashMap<String, Entries>>(&wire).unwrap()["x"], entries);
        }
        assert_eq!(decode::<Option<Vec<(String, Entries)>>>("*-1").unwrap(), None, "XREAD STREAMS x 9");
        for wire in ["*1 *2 $1 x *1 *2 $3 1-1 *-1", "%1 $1 x *1 *2 $3 1-1 _"] {
            let read = decode::<Vec<(String, Vec<(String, Option<HashMap<String, String>>)>)>>(wire).unwrap();
            assert_eq!(read, [("x".into(), vec![("1-1".into(), None)])], "a pending entry that was deleted");
        }
        for wire in ["*1 $-1", "*1 _"] {
            let claimed = decode::<Vec<Option<(String, HashMap<String, String>)>>>(wire).unwrap();
            assert_eq!(claimed, [None], "XCLAIM of a deleted entry, 6.2");
        }
        let pending =
            decode::<(i64, Option<String>, Option<String>, Option<Vec<String>>)>("*4 :0 $-1 $-1 *-1").unwrap();
        assert_eq!(pending, (0, None, None, None), "XPENDING x g");
    }

    #[test]
    fn places_are_the_same_in_both_protocols() {
        let palermo = (13.361_389_338_970_184, 38.115_556_395_496_3);
        for wire in [
            "*2 *2 $20 13.36138933897018433 $20 38.11555639549629859 *-1",
            "*2 *2 ,13.36138933897018433 ,38.11555639549629859 _",
        ] {
            let places = decode::<Vec<Option<(f64, f64)>>>(wire).unwrap();
            assert_eq!(places, [Some(palermo), None], "GEOPOS geo Palermo none");
            assert!(matches!(decode::<Vec<(f64, f64)>>(wire), Err(Error::Nil)));
        }
        let wire = "*1 *4 $7 Palermo $8 190.4424 :3479099956230698 *2 ,13.36138933897018433 ,38.11555639549629859";
        let found = decode::<Vec<(String, f64, u64, (f64, f64))>>(wire).unwrap();
        assert_eq!(found, [("Palermo".into(), 190.4424, 3_479_099_956_230_698, palermo)], "GEOSEARCH WITH*");
    }

    #[test]
    fn nested_pairs_of_pairs_are_told_apart() {
        type Matches = Vec<((i64, i64), (i64, i64))>;
        let wire = "*2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 *2 :0 :1";
        assert_eq!(decode::<Matches>(wire).unwrap(), [((4, 7), (5, 8)), ((2, 3), (0, 1))], "LCS a b IDX");
        let links = HashMap::from([("e2".to_owned(), 0.9952653646469116)]);
        for wire in ["*1 *2 $2 e2 $18 0.9952653646469116", "*1 %1 $2 e2 ,0.9952653646469116"] {
            assert_eq!(decode::<Vec<HashMap<String, f64>>>(wire).unwrap(), std::slice::from_ref(&links), "VLINKS");
        }
        let histogram = decode::<BTreeMap<i64, i64>>("%4 :1 :1 :2 :4 :4 :6 :8 :7").unwrap();
        assert_eq!(histogram, BTreeMap::from([(1, 1), (2, 4), (4, 6), (8, 7)]), "LATENCY HISTOGRAM");
        for wire in ["*6 :0 :0 :1 :1 :2 :0", "%3 :0 #f :1 #t :2 #f"] {
            let map = BTreeMap::from([(0, false), (1, true), (2, false)]);
            assert_eq!(decode::<BTreeMap<i64, bool>>(wire).unwrap(), map, "DEBUG PROTOCOL map");
        }
        let sorted = decode::<Vec<(Option<String>, i64)>>("*6 $-1 $1 3 $1 x $1 1 $1 y $1 2").unwrap();
        assert_eq!(sorted, [(None, 3), (Some("x".into()), 1), (Some("y".into()), 2)], "SORT l GET w_* GET #");
    }

    #[test]
    fn an_error_element_harms_no_other() {
        let wire = "*3 :1 -E_x :3";
        let all = decode::<Vec<Result<i64, ServerError>>>(wire).unwrap();
        assert_eq!(all, [Ok(1), Err(ServerError::new("E_x")), Ok(3)], "EVAL \"return {{1,{{err='E x'}},3}}\"");
        assert!(matches!(decode::<Vec<i64>>(wire), Err(Error::Server(error)) if error.message() == b"E_x"));
        assert!(matches!(decode::<(i64, i64, i64)>(wire), Err(Error::Server(_))));
        assert!(matches!(decode::<[i64; 3]>(wire), Err(Error::Server(_))));
        let tuple = decode::<(i64, Result<(), ServerError>, i64)>(wire).unwrap();
        assert_eq!(tuple, (1, Err(ServerError::new("E_x")), 3));
        let items: Vec<_> = with_frame(wire, |frame| Items::<i64>::new(frame).unwrap().map(|item| item.ok()).collect());
        assert_eq!(items, [Some(1), None, Some(3)]);
        let fields = decode::<HashMap<String, Result<String, ServerError>>>("*2 $1 a -E_x").unwrap();
        assert_eq!(fields["a"], Err(ServerError::new("E_x")));
    }

    #[test]
    fn results_of_scripts_are_lists_of_anything() {
        assert_eq!(decode::<Vec<i64>>("*1 :1").unwrap(), [1], "return {{1,nil,3}}");
        assert_eq!(decode::<(i64, (i64, String))>("*2 :1 *2 :2 $1 x").unwrap(), (1, (2, "x".into())));
        for wire in ["*2 $1 a :1", "%1 $1 a :1"] {
            assert_eq!(decode::<HashMap<String, i64>>(wire).unwrap()["a"], 1, "return {{map={{a=1}}}}");
        }
        let overflow = decode::<Vec<Option<i64>>>("*2 $-1 $-1").unwrap();
        assert_eq!(overflow, [None, None], "BITFIELD k OVERFLOW FAIL …");
    }

    #[test]
    fn arrays_and_tuples_take_exactly_their_number() {
        let wire = "*3 $1 1 :2 ,3";
        assert_eq!(decode::<[i64; 3]>(wire).unwrap(), [1, 2, 3]);
        assert_eq!(decode::<(i64, i64, f64)>(wire).unwrap(), (1, 2, 3.0));
        assert_eq!(decode::<(String,)>("*1 $1 a").unwrap(), ("a".into(),));
        let says = |n, got| format!("unexpected reply: expected an array of {n} elements, got {got} elements");
        assert_eq!(refusal::<(i64, i64)>(wire), says(2, "more"));
        assert_eq!(refusal::<(i64, i64, i64, i64)>(wire), says(4, "fewer"));
        assert_eq!(refusal::<(i64,)>("*0"), says(1, "fewer"));
        let says = |got| format!("unexpected reply: expected an array of the length asked for, got {got} elements");
        assert_eq!(refusal::<[i64; 2]>(wire), says("more"));
        assert_eq!(refusal::<[i64; 4]>(wire), says("fewer"));
        let twelve = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
        assert_eq!(
            decode::<(i8, i16, i32, i64, isize, u16, u32, u64, usize, i128, u128, i8)>(
                "*12 :1 :2 :3 :4 :5 :6 :7 :8 :9 :10 :11 :12"
            )
            .unwrap(),
            twelve
        );
    }

    #[test]
    fn room_is_made_for_what_is_there_and_not_more_than_that_takes() {
        let strings = format!("*100 {}", ["$4 text"; 100].join(" "));
        with_frame(&strings, |frame| assert_eq!(Items::<String>::new(frame).unwrap().room(), 100));
        let nulls = format!("*100000 {}", ["_"; 100_000].join(" "));
        with_frame(&nulls, |frame| {
            assert_eq!(Items::<Option<[i64; 15]>>::new(frame).unwrap().room(), 300_000 / 128);
            assert_eq!(Vec::<Option<[i64; 15]>>::from_reply(frame).unwrap().len(), 100_000);
        });
    }
}
