//! Any bytes: decoded whole and decoded in pieces they give the same frames and the same error, and nothing panics, not
//! even when each frame is walked to its leaves.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redefer::resp::{Decoder, Frame, ProtocolError};

/// What is left of a frame once it has been walked: how many frames, and a sum of all that was in them.
fn walk(frame: Frame<'_>, frames: &mut u64, sum: &mut u64) {
    *frames += 1;
    let mut add = |value: u64| *sum = sum.wrapping_mul(0x0100_0000_01b3).wrapping_add(value);
    frame.kind().bytes().for_each(|byte| add(byte.into()));
    match frame {
        Frame::Integer(value) => add(value.cast_unsigned()),
        Frame::Double(value) => add(value.to_bits()),
        Frame::Boolean(value) => add(value.into()),
        Frame::Error(text) => text.iter().for_each(|&byte| add(byte.into())),
        Frame::Verbatim { format, .. } => format.iter().for_each(|&byte| add(byte.into())),
        _ => {}
    }
    frame.as_bytes().unwrap_or_default().iter().for_each(|&byte| add(byte.into()));
    if let Some(elements) = frame.as_elements() {
        let announced = elements.len();
        let mut seen = 0;
        for element in elements {
            walk(element, frames, sum);
            seen += 1;
        }
        assert_eq!(seen, announced, "a whole frame has all its elements");
    }
}

#[derive(Debug, PartialEq)]
struct Outcome {
    taken: usize,
    frames: u64,
    pushes: u64,
    sum: u64,
    error: Option<ProtocolError>,
}

fn decode(bytes: &[u8], mut decoder: Decoder, piece: usize) -> Outcome {
    let mut outcome = Outcome { taken: 0, frames: 0, pushes: 0, sum: 0, error: None };
    let mut end = 0;
    while end < bytes.len() {
        end = bytes.len().min(end + piece);
        loop {
            match decoder.decode(&bytes[outcome.taken..end]) {
                Ok(Some((frame, len))) => {
                    assert!(len > 0 && len <= end - outcome.taken);
                    walk(frame, &mut outcome.frames, &mut outcome.sum);
                    for push in decoder.pushes(&bytes[outcome.taken..end]) {
                        assert!(matches!(push, Frame::Push(_)));
                        walk(push, &mut outcome.pushes, &mut outcome.sum);
                    }
                    outcome.taken += len;
                }
                Ok(None) => break,
                Err(error) => {
                    outcome.error = Some(error);
                    return outcome;
                }
            }
        }
    }
    outcome
}

// The first byte of the input is the length of the pieces.
fuzz_target!(|data: &[u8]| {
    let Some((&piece, bytes)) = data.split_first() else { return };
    for decoder in [Decoder::new, Decoder::resp2] {
        let whole = decode(bytes, decoder(), bytes.len());
        assert_eq!(decode(bytes, decoder(), usize::from(piece).max(1)), whole);
        assert_eq!(decode(bytes, decoder(), 1), whole);
    }
});
