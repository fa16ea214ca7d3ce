//! Nodes of a cluster that say what the test dictates.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use redefer::cluster::{Cluster, slot_of};
use redefer::resp::Decoder;
use redefer::{Config, ConnectionLost, Error, Result, Sent};

pub type Words = Vec<String>;

/// What a node does with a command.
pub enum Say {
    Bytes(String),
    /// Nothing, and nothing any more.
    Hang,
    /// Ends the connection.
    Close,
}

pub type Script = dyn FnMut(&Words) -> Say + Send;

/// A node that many may be connected to at once; what opens a connection and asks for the topology it answers by itself.
pub struct Node {
    pub port: u16,
    /// The commands that the script has answered, in order.
    pub log: Arc<Mutex<Vec<Words>>>,
    pub script: Arc<Mutex<Box<Script>>>,
    /// What it answers to CLUSTER SLOTS; nothing, if this is empty.
    pub slots: Arc<Mutex<String>>,
    /// Sends every byte alone.
    pub chops: Arc<AtomicBool>,
    pub accepted: Arc<AtomicUsize>,
    /// Accepts connections, and says nothing.
    pub mute: Arc<AtomicBool>,
    /// Lets nobody in any more.
    pub gone: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Node {
    pub fn start() -> Node {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = Node {
            port: listener.local_addr().unwrap().port(),
            log: Arc::default(),
            script: Arc::new(Mutex::new(Box::new(|_: &Words| say("+OK")))),
            slots: Arc::default(),
            chops: Arc::default(),
            accepted: Arc::default(),
            mute: Arc::default(),
            gone: Arc::default(),
            streams: Arc::default(),
        };
        let (log, script, slots) = (node.log.clone(), node.script.clone(), node.slots.clone());
        let (chops, accepted, mute) = (node.chops.clone(), node.accepted.clone(), node.mute.clone());
        let (gone, streams) = (node.gone.clone(), node.streams.clone());
        // Ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                accepted.fetch_add(1, Ordering::SeqCst);
                if gone.load(Ordering::SeqCst) {
                    continue;
                }
                streams.lock().unwrap().extend(stream.as_ref().ok().and_then(|stream| stream.try_clone().ok()));
                let (log, script, slots) = (log.clone(), script.clone(), slots.clone());
                let (chops, mute) = (chops.clone(), mute.clone());
                // Whatever the client does to the connection is no fault here.
                thread::spawn(move || serve(stream?, &log, &script, &slots, &chops, &mute));
            }
        });
        node
    }

    /// Ends all connections.
    pub fn end_connections(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn does(&self, script: impl FnMut(&Words) -> Say + Send + 'static) {
        *self.script.lock().unwrap() = Box::new(script);
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn moved(&self, key: &str) -> Say {
        say(&format!("-MOVED {} 127.0.0.1:{}", slot_of(key.as_bytes()), self.port))
    }

    pub fn ask(&self, key: &str) -> Say {
        say(&format!("-ASK {} 127.0.0.1:{}", slot_of(key.as_bytes()), self.port))
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().iter().map(|words| words.join(" ")).collect()
    }
}

pub fn say(line: &str) -> Say {
    Say::Bytes(format!("{line}\r\n"))
}

pub fn bulk(text: &str) -> Say {
    Say::Bytes(format!("${}\r\n{text}\r\n", text.len()))
}

pub fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Words>>,
    script: &Mutex<Box<Script>>,
    slots: &Mutex<String>,
    chops: &AtomicBool,
    mute: &AtomicBool,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut received, mut decoder) = (Vec::new(), Decoder::new());
    let mut piece = [0; 4096];
    loop {
        let decoded = decoder.decode(&received).unwrap().map(|(frame, len)| {
            let words = frame.as_elements().unwrap();
            (words.map(|word| String::from_utf8_lossy(word.as_bytes().unwrap()).into_owned()).collect::<Words>(), len)
        });
        let Some((words, len)) = decoded else {
            let n = stream.read(&mut piece)?;
            if n == 0 {
                return Ok(());
            }
            received.extend_from_slice(&piece[..n]);
            continue;
        };
        received.drain(..len);
        let said = match &*words[0] {
            "HELLO" if mute.load(Ordering::SeqCst) => Say::Hang,
            "HELLO" => Say::Bytes(super::scripted::HELLO_REPLY.to_owned()),
            "CLIENT" | "READONLY" => say("+OK"),
            "CLUSTER" if words[1] == "SLOTS" => match slots.lock().unwrap().clone() {
                // Nothing is known yet, and nothing will be.
                slots if slots.is_empty() => Say::Hang,
                slots => Say::Bytes(slots),
            },
            "CLUSTER" => say("-ERR unknown subcommand"),
            _ => {
                log.lock().unwrap().push(words.clone());
                (*script.lock().unwrap())(&words)
            }
        };
        match said {
            Say::Bytes(bytes) if chops.load(Ordering::SeqCst) => {
                bytes.as_bytes().iter().try_for_each(|byte| stream.write_all(&[*byte]))?;
            }
            Say::Bytes(bytes) => stream.write_all(bytes.as_bytes())?,
            Say::Hang => while stream.read(&mut piece)? > 0 {},
            Say::Close => return stream.shutdown(Shutdown::Both),
        }
    }
}

/// Nodes of which the first has all slots.
pub fn nodes<const N: usize>() -> [Node; N] {
    let nodes = [(); N].map(|()| Node::start());
    let all = one_owner("127.0.0.1", nodes[0].port);
    nodes.iter().for_each(|node| *node.slots.lock().unwrap() = all.clone());
    nodes
}

/// Nodes that redirect at random, and give each command its key back sooner or later. `chops`: every byte alone.
pub fn storm(chops: bool) -> [Node; 3] {
    let [a, b, c] = nodes();
    let ports = [a.port, b.port, c.port];
    for (index, node) in [&a, &b, &c].into_iter().enumerate() {
        node.chops.store(chops, Ordering::SeqCst);
        let mut rng = Rng::with_seed(index as u64);
        let mut tries: HashMap<String, u32> = HashMap::new();
        node.does(move |words| {
            if words[0] == "ASKING" {
                return say("+OK");
            }
            let (slot, other) = (slot_of(&words[1]), ports[rng.usize(..3)]);
            let tried = tries.entry(words[1].clone()).or_default();
            *tried += 1;
            match rng.u64(..8) {
                0 if *tried < 4 => say(&format!("-MOVED {slot} 127.0.0.1:{other}")),
                1 if *tried < 4 => say(&format!("-ASK {slot} 127.0.0.1:{other}")),
                2 if *tried < 4 => say("-TRYAGAIN"),
                3 => bulk(&format!("{}\r\n-MOVED {slot} 127.0.0.1:{other}", words[1])),
                _ => bulk(&words[1]),
            }
        });
    }
    [a, b, c]
}

/// What CLUSTER SLOTS says when each of these has as many slots, in their order.
pub fn owners(nodes: &[&Node]) -> String {
    let bound = |index: usize| index * 16_384 / nodes.len();
    let entry = |(index, node): (usize, &&Node)| {
        let (first, last) = (bound(index), bound(index + 1) - 1);
        format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{}\r\n$2\r\nid\r\n", node.port)
    };
    format!("*{}\r\n{}", nodes.len(), nodes.iter().enumerate().map(entry).collect::<String>())
}

pub fn one_owner(host: &str, port: u16) -> String {
    format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n${}\r\n{host}\r\n:{port}\r\n$2\r\nid\r\n", host.len())
}

pub fn config(node: &Node) -> Config {
    Config::from_url(&node.url()).unwrap().timeout(Duration::from_secs(10)).linger(Duration::from_millis(100))
}

pub fn open(node: &Node) -> Cluster {
    Cluster::open(config(node)).unwrap()
}

pub fn code<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().code().unwrap_or("none").to_owned()
}

pub fn text_of(said: Say) -> String {
    match said {
        Say::Bytes(bytes) => bytes,
        _ => unreachable!(),
    }
}

pub fn once(said: Say) -> impl FnMut(&Words) -> Say + Send {
    let text = text_of(said);
    move |_| Say::Bytes(text.clone())
}

/// How a command under load failed: whether it may have run.
pub fn may_have_run(error: &Error, context: &str) -> bool {
    match error {
        Error::ConnectionLost(lost) => ConnectionLost::sent(lost) == Sent::Fully,
        Error::Timeout => true,
        Error::Io(_) => false,
        // Not served in time.
        Error::Server(error) => match error.code() {
            Some("CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK" | "READONLY" | "LOADING" | "EXECABORT") => false,
            // The server ended a script or the like: nobody knows.
            other => panic!("{context}: {other:?} {error}"),
        },
        other => panic!("{context}: {other}"),
    }
}
