//! The decoder against random frames, random cuts and random damage. The encoding here is the test's own.

use proptest::collection::vec;
use proptest::prelude::*;
use redefer::resp::{Decoder, Elements, Frame, ProtocolError};

/// A frame that owns its parts.
#[derive(Clone, Debug)]
enum Tree {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    BulkError(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    Verbatim([u8; 3], Vec<u8>),
    Double(f64),
    BigNumber(String),
    Boolean(bool),
    /// Its spelling.
    Null(&'static str),
    /// Its type byte and elements.
    Aggregate(u8, Vec<Tree>),
    /// The pairs of an attribute, then what it stands before.
    Attribute(Vec<Tree>, Box<Tree>),
    /// The elements of a push, then the element that it stands before.
    Interrupted(Vec<Tree>, Box<Tree>),
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    // Any bytes but a CRLF, and not ending in what would become one.
    vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'$')], 0..40).prop_map(|mut text| {
        while let Some(at) = text.windows(2).position(|pair| pair == b"\r\n") {
            text.remove(at);
        }
        text
    })
}

fn scalar() -> impl Strategy<Value = Tree> {
    prop_oneof![
        Just(Tree::Simple(b"OK".to_vec())),
        text().prop_map(Tree::Simple),
        text().prop_map(Tree::Error),
        vec(any::<u8>(), 0..40).prop_map(Tree::BulkError),
        any::<i64>().prop_map(Tree::Integer),
        (0..2000i64).prop_map(Tree::Integer),
        vec(any::<u8>(), 0..40).prop_map(Tree::Bulk),
        vec(any::<u8>(), 90..1100).prop_map(Tree::Bulk),
        (any::<[u8; 3]>(), vec(any::<u8>(), 0..12)).prop_map(|(format, text)| Tree::Verbatim(format, text)),
        any::<f64>().prop_filter("nan is unequal to itself", |value| !value.is_nan()).prop_map(Tree::Double),
        "-?[1-9][0-9]{0,60}".prop_map(Tree::BigNumber),
        any::<bool>().prop_map(Tree::Boolean),
        prop_oneof![Just("$-1\r\n"), Just("*-1\r\n"), Just("_\r\n")].prop_map(Tree::Null),
    ]
}

/// Whether pushes may stand between elements: not inside of a push.
fn tree(pushes: bool) -> BoxedStrategy<Tree> {
    scalar()
        .prop_recursive(5, 60, 6, move |inner| {
            let pairs = |inner: BoxedStrategy<Tree>, most: usize| {
                vec((inner.clone(), inner), 0..=most)
                    .prop_map(|pairs| pairs.into_iter().flat_map(|(key, value)| [key, value]).collect::<Vec<_>>())
            };
            let kinds = prop_oneof![
                5 => vec(inner.clone(), 0..6).prop_map(|elements| Tree::Aggregate(b'*', elements)),
                1 => vec(scalar(), 9..13).prop_map(|elements| Tree::Aggregate(b'*', elements)),
                2 => vec(inner.clone(), 0..6).prop_map(|elements| Tree::Aggregate(b'~', elements)),
                2 => pairs(inner.clone(), 3).prop_map(|elements| Tree::Aggregate(b'%', elements)),
                1 => (pairs(inner.clone(), 2), inner.clone())
                    .prop_map(|(pairs, value)| Tree::Attribute(pairs, Box::new(value))),
            ];
            if pushes {
                let push = vec(tree(false), 0..3);
                let interrupted = (push, inner).prop_map(|(push, element)| {
                    Tree::Aggregate(b'*', vec![Tree::Interrupted(push, Box::new(element))])
                });
                prop_oneof![9 => kinds, 1 => interrupted].boxed()
            } else {
                kinds.boxed()
            }
        })
        .boxed()
}

/// What may come from a server: a reply or a push.
fn reply() -> impl Strategy<Value = Tree> {
    prop_oneof![9 => tree(true), 1 => vec(tree(false), 0..4).prop_map(|push| Tree::Aggregate(b'>', push))]
}

fn encode(tree: &Tree, out: &mut Vec<u8>) {
    let line = |out: &mut Vec<u8>, kind: u8, text: &[u8]| {
        out.push(kind);
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    };
    let bulk = |out: &mut Vec<u8>, kind: u8, text: &[u8]| {
        line(out, kind, text.len().to_string().as_bytes());
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    };
    let aggregate = |out: &mut Vec<u8>, kind: u8, elements: &[Tree]| {
        let count = if matches!(kind, b'%' | b'|') { elements.len() / 2 } else { elements.len() };
        line(out, kind, count.to_string().as_bytes());
        elements.iter().for_each(|element| encode(element, out));
    };
    match tree {
        Tree::Simple(text) => line(out, b'+', text),
        Tree::Error(text) => line(out, b'-', text),
        Tree::BulkError(text) => bulk(out, b'!', text),
        Tree::Integer(value) => line(out, b':', value.to_string().as_bytes()),
        Tree::Bulk(text) => bulk(out, b'$', text),
        Tree::Verbatim(format, text) => bulk(out, b'=', &[format, &b":"[..], text].concat()),
        Tree::Double(value) => line(out, b',', value.to_string().as_bytes()),
        Tree::BigNumber(digits) => line(out, b'(', digits.as_bytes()),
        Tree::Boolean(value) => line(out, b'#', if *value { b"t" } else { b"f" }),
        Tree::Null(spelling) => out.extend_from_slice(spelling.as_bytes()),
        Tree::Aggregate(kind, elements) => aggregate(out, *kind, elements),
        Tree::Attribute(pairs, value) => {
            aggregate(out, b'|', pairs);
            encode(value, out);
        }
        Tree::Interrupted(push, element) => {
            aggregate(out, b'>', push);
            encode(element, out);
        }
    }
}

fn bytes_of(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    encode(tree, &mut out);
    out
}

/// Whether the frame is what the tree says. Pushes that were lifted out are added to `pushes`.
fn same<'t>(frame: Frame<'_>, tree: &'t Tree, pushes: &mut Vec<&'t [Tree]>) -> bool {
    let each = |elements: Elements<'_>, trees: &'t [Tree], pushes: &mut Vec<&'t [Tree]>| {
        elements.len() == trees.len()
            && elements.size_hint() == (trees.len(), Some(trees.len()))
            && elements.count() == trees.len()
            && elements.zip(trees).all(|(frame, tree)| same(frame, tree, pushes))
    };
    match (frame, tree) {
        (Frame::SimpleString(text), Tree::Simple(expected))
        | (Frame::Error(text), Tree::Error(expected) | Tree::BulkError(expected))
        | (Frame::Bulk(text), Tree::Bulk(expected)) => text == expected,
        (Frame::Integer(value), Tree::Integer(expected)) => value == *expected,
        (Frame::Verbatim { format, text }, Tree::Verbatim(expected_format, expected)) => {
            format == *expected_format && text == expected
        }
        (Frame::Double(value), Tree::Double(expected)) => value.to_bits() == expected.to_bits(),
        (Frame::BigNumber(digits), Tree::BigNumber(expected)) => digits == expected.as_bytes(),
        (Frame::Boolean(value), Tree::Boolean(expected)) => value == *expected,
        (Frame::Null, Tree::Null(_)) => true,
        (Frame::Array(elements), Tree::Aggregate(b'*', trees))
        | (Frame::Set(elements), Tree::Aggregate(b'~', trees))
        | (Frame::Map(elements), Tree::Aggregate(b'%', trees))
        | (Frame::Push(elements), Tree::Aggregate(b'>', trees)) => each(elements, trees, pushes),
        (frame, Tree::Attribute(pairs, value)) => {
            pairs.iter().for_each(|pair| lifted(pair, pushes));
            same(frame, value, pushes)
        }
        (frame, Tree::Interrupted(push, element)) => {
            pushes.push(push);
            same(frame, element, pushes)
        }
        _ => false,
    }
}

/// Adds the pushes inside of an attribute, in which nobody looks.
fn lifted<'t>(tree: &'t Tree, pushes: &mut Vec<&'t [Tree]>) {
    match tree {
        Tree::Aggregate(_, elements) => elements.iter().for_each(|element| lifted(element, pushes)),
        Tree::Attribute(pairs, value) => {
            pairs.iter().for_each(|pair| lifted(pair, pushes));
            lifted(value, pushes);
        }
        Tree::Interrupted(push, element) => {
            pushes.push(push);
            lifted(element, pushes);
        }
        _ => {}
    }
}

/// Every frame in it, itself included.
fn walk(frame: Frame<'_>) -> usize {
    1 + frame.as_elements().map_or(0, |elements| elements.map(walk).sum())
}

/// Any byte, mostly those of the protocol.
fn any_byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(b"+-:$*%~>|=!#,(_\r\n0123456789")]
}

type Outcome = (Vec<(String, usize)>, Option<ProtocolError>);

/// Decodes all frames while the bytes arrive in pieces that end at these places.
fn decode_all(bytes: &[u8], ends: impl IntoIterator<Item = usize>) -> Outcome {
    let (mut decoder, mut at, mut frames) = (Decoder::new(), 0, Vec::new());
    for end in ends {
        loop {
            match decoder.decode(&bytes[at..end]) {
                Ok(Some((frame, len))) => {
                    walk(frame);
                    frames.push((format!("{frame:?} {:?}", decoder.pushes(&bytes[at..]).collect::<Vec<_>>()), len));
                    at += len;
                }
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_encoded_is_decoded(trees in vec(reply(), 1..4)) {
        let bytes = trees.iter().flat_map(bytes_of).collect::<Vec<_>>();
        let (mut decoder, mut at) = (Decoder::new(), 0);
        for tree in &trees {
            let (frame, len) = decoder.decode(&bytes[at..])?.expect("a whole frame");
            let mut pushes = Vec::new();
            prop_assert!(same(frame, tree, &mut pushes), "{frame:?} is not {tree:?}");
            prop_assert_eq!(len, bytes_of(tree).len());
            let found = decoder.pushes(&bytes[at..]).collect::<Vec<_>>();
            prop_assert_eq!(found.len(), pushes.len());
            for (push, elements) in found.into_iter().zip(pushes) {
                let tree = Tree::Aggregate(b'>', elements.to_vec());
                prop_assert!(same(push, &tree, &mut Vec::new()), "{push:?} is not {tree:?}");
            }
            at += len;
        }
        prop_assert_eq!(at, bytes.len());
    }

    #[test]
    fn cuts_change_nothing(trees in vec(reply(), 1..4), cuts in vec(any::<prop::sample::Index>(), 0..8)) {
        let bytes = trees.iter().flat_map(bytes_of).collect::<Vec<_>>();
        let whole = decode_all(&bytes, [bytes.len()]);
        prop_assert_eq!((whole.0.len(), whole.1), (trees.len(), None));
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([bytes.len()]).collect();
        ends.sort_unstable();
        prop_assert_eq!(&decode_all(&bytes, ends), &whole);
        prop_assert_eq!(&decode_all(&bytes, 0..=bytes.len()), &whole);
    }

    #[test]
    fn a_frame_needs_all_its_bytes_and_no_more(tree in reply(), cut in any::<prop::sample::Index>()) {
        let bytes = bytes_of(&tree);
        let cut = cut.index(bytes.len());
        prop_assert_eq!(Decoder::new().decode(&bytes[..cut])?, None);
        prop_assert!(Decoder::new().decode(&bytes)?.is_some());
    }

    #[test]
    fn damage_never_panics_and_never_depends_on_cuts(
        trees in vec(reply(), 1..3),
        damage in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..5),
    ) {
        let mut bytes = trees.iter().flat_map(bytes_of).collect::<Vec<_>>();
        for (at, byte, how) in damage {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => { bytes.remove(at); }
                _ => {}
            }
        }
        prop_assert_eq!(decode_all(&bytes, [bytes.len()]), decode_all(&bytes, 0..=bytes.len()));
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any_byte(), 0..80)) {
        prop_assert_eq!(decode_all(&bytes, [bytes.len()]), decode_all(&bytes, 0..=bytes.len()));
    }

    #[test]
    fn pushes_are_refused_in_resp2_wherever_they_are(tree in tree(true)) {
        let bytes = bytes_of(&tree);
        let mut decoder = Decoder::new();
        decoder.decode(&bytes)?;
        let expected = match decoder.pushes(&bytes).next() {
            Some(_) => Err(ProtocolError::PushInResp2),
            None => Decoder::new().decode(&bytes),
        };
        prop_assert_eq!(Decoder::resp2().decode(&bytes), expected);
    }
}
