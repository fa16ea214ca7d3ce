//! A batch: many commands, sent in large pieces, with one outcome. Handles may be dropped for nothing or kept, and an
//! error says at which position it happened.

use redefer::prelude::*;
use redefer::testing::Server;

fn main() -> redefer::Result<()> {
    // A private server, or the one whose URL is the first argument.
    let server;
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => {
            server = Server::start()?;
            server.url()
        }
    };
    let conn = Connection::open(url)?;
    conn.del(["scores", "names", "text"]).wait()?;

    // 100,000 commands, constant memory: full pieces go out while the loop runs.
    let batch = conn.batch();
    for n in 0..100_000 {
        batch.zadd("scores", (n % 100, n % 1000)); // dropped: nothing to wait for
    }
    let members = batch.zcard("scores"); // kept: to be read when the batch is finished
    batch.finish()?;
    assert_eq!(members.wait()?, 1000);

    // A handle may also be waited for in the middle. What has been gathered is sent then.
    let batch = conn.batch();
    batch.hset("names", [("1", "Ada"), ("2", "Grace")]);
    let name: String = batch.hget("names", "2").wait()?;
    assert_eq!(name, "Grace");
    batch.hset("names", ("3", "Barbara"));
    let all = batch.hvals::<String>("names");
    batch.finish()?;
    let all: Vec<String> = all.wait()?;
    assert_eq!(all.len(), 3);

    // Errors of dropped handles are told by `finish`: the first one, where it was, and how many there were.
    conn.set("text", "hello").wait()?;
    let batch = conn.batch();
    batch.append("text", ", world");
    batch.incr("text"); // position 1
    batch.incr("text");
    let kept = batch.incr("text"); // has its own error, which is not counted
    batch.append("text", "!");
    let Err(Error::Batch(error)) = batch.finish() else { panic!("two commands have failed") };
    assert_eq!((error.position(), error.failed(), error.first().code()), (1, 2, Some("ERR")));
    assert!(matches!(kept.wait(), Err(Error::Server(_))));
    println!("{error}");

    // The others have run. A batch is a pipeline, not a transaction.
    assert_eq!(conn.get::<String>("text").wait()?, "hello, world!");

    // A batch that is dropped is finished as well, and its errors wait for `sync`. So `?` in the middle loses nothing.
    let batch = conn.batch();
    batch.incr("text");
    drop(batch);
    assert!(matches!(conn.sync(), Err(Error::Batch(_))));
    conn.sync()?; // told once
    println!("everything was as it should be");
    Ok(())
}
