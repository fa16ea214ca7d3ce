//! A value of 64 MiB from a reader into the server and back to a writer, in constant memory.

use std::io::{self, Read, Write};

use redefer::prelude::*;
use redefer::testing::Server;

/// Adds up what is written.
#[derive(Default)]
struct Sum {
    bytes: u64,
    sum: u64,
}

impl Write for Sum {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.bytes += piece.len() as u64;
        self.sum += piece.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn main() -> redefer::Result<()> {
    let server = Server::start()?;
    let conn = Connection::open(server.url())?;
    let len = 64 << 20;

    // In place of `repeat` a `File`, a pipe, or anything else that is `Read`; what counts is that the length is known.
    conn.set_from("film", io::repeat(3).take(len), len).wait()?;
    conn.append_from("film", &b"the end"[..], 7).wait()?;

    let mut sum = Sum::default();
    let copied = conn.get::<Vec<u8>>("film").copy_to(&mut sum)?;
    println!("{copied} bytes, and the last are {:?}", conn.getrange::<String>("film", -7, -1).wait()?);
    assert_eq!((copied, sum.bytes), (len + 7, len + 7));
    assert_eq!(sum.sum, 3 * len + b"the end".iter().map(|byte| u64::from(*byte)).sum::<u64>());

    // A writer that fails costs nothing but the value: what is left of it is skipped.
    let failed = conn.get::<Vec<u8>>("film").copy_to(&mut &mut [0; 1000][..]);
    println!("a writer with room for 1000 bytes: {}", failed.expect_err("it is full"));
    assert_eq!(conn.strlen("film").wait()?, (len + 7) as i64);
    Ok(())
}
