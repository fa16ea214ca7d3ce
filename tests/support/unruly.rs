//! Nodes of a cluster that redirect, put off and break at random, and what models do with them.

use std::cell::RefCell;

use fastrand::Rng;
use redefer::cluster::slot_of;
use redefer::resp::Frame;
use redefer::{Error, FromReply, Result};

use super::nodes::{Node, Say, Words, say};

/// A value whose decoding fails or panics, as the text says.
#[derive(Debug)]
pub struct Moody(pub String);

impl FromReply for Moody {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let text = String::from_reply(frame)?;
        match text.bytes().last() {
            Some(b'7') => std::panic::resume_unwind(Box::new("moody")),
            Some(b'3') => Err(Error::custom("moody")),
            _ => Ok(Moody(text)),
        }
    }
}

/// What a node does with commands.
#[derive(Clone, Copy, Debug)]
pub struct Nature {
    /// Ends the connection at one of so many; 0: never.
    pub breaks: u64,
    /// Redirects or puts off four of so many.
    pub troubles: u64,
}

/// A transaction that has been begun, and whether it has been refused.
type Queued = Option<(Vec<Words>, bool)>;

thread_local! {
    /// Each connection to a node has a thread of its own.
    static QUEUED: RefCell<Queued> = const { RefCell::new(None) };
}

/// Lets a node redirect to any of the ports, and what it does not redirect `run`, which says the reply.
pub fn unruly(
    node: &Node,
    ports: &[u16],
    seed: u64,
    nature: Nature,
    mut run: impl FnMut(&Words) -> String + Send + 'static,
) {
    let (ports, mut rng) = (ports.to_vec(), Rng::with_seed(seed));
    node.does(move |words| {
        if nature.breaks > 0 && rng.u64(..nature.breaks) == 0 {
            return Say::Close;
        }
        let mut trouble = |slot: u16| {
            let port = ports[rng.usize(..ports.len())];
            match rng.u64(..nature.troubles) {
                0 | 1 => Some(format!("-MOVED {slot} 127.0.0.1:{port}\r\n")),
                2 => Some(format!("-ASK {slot} 127.0.0.1:{port}\r\n")),
                3 => Some("-TRYAGAIN\r\n".to_owned()),
                _ => None,
            }
        };
        QUEUED.with_borrow_mut(|queued| match &*words[0] {
            "ASKING" => say("+OK"),
            "MULTI" => {
                *queued = Some((Vec::new(), false));
                say("+OK")
            }
            "EXEC" => {
                let Some((commands, refused)) = queued.take() else { return say("-ERR EXEC without MULTI") };
                if refused {
                    return say("-EXECABORT");
                }
                if let Some(error) = commands.first().and_then(|words| trouble(slot_of(&words[1]))) {
                    return Say::Bytes(error);
                }
                let replies: String = commands.iter().map(&mut run).collect();
                Say::Bytes(format!("*{}\r\n{replies}", commands.len()))
            }
            _ => {
                let slot = words.get(1).map_or(0, slot_of);
                match queued {
                    Some((commands, refused)) => {
                        // Seldom, or hardly any transaction gets through.
                        if slot % 3 == 0
                            && let Some(error) = trouble(slot)
                        {
                            *refused = true;
                            return Say::Bytes(error);
                        }
                        commands.push(words.clone());
                        say("+QUEUED")
                    }
                    None if words[0] == "DBSIZE" => say(":1"),
                    None if words[0] == "SCAN" => {
                        let next = i32::from(words[1] == "0");
                        Say::Bytes(format!("*2\r\n$1\r\n{next}\r\n*1\r\n$3\r\nkey\r\n"))
                    }
                    None => Say::Bytes(trouble(slot).unwrap_or_else(|| run(words))),
                }
            }
        })
    });
}
