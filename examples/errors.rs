//! How each error looks, whom it is told, and what the connection is worth afterwards.

use std::time::Duration;

use redefer::commands::ClientKillFilter;
use redefer::testing::{Server, free_port};
use redefer::{Sent, WaitError, prelude::*};

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

    // Before there is a connection: a URL that cannot be used, and a server that is not there.
    assert!(matches!(Connection::open("http://127.0.0.1"), Err(Error::Config(_))));
    assert!(matches!(Connection::open(Config::tcp("127.0.0.1", free_port()?)), Err(Error::Io(_))));

    let conn = Connection::open(&url)?;
    conn.del(["text", "empty", "n"]).wait()?;
    conn.set("text", "hello").wait()?;

    // The server says no: a code word, and a message. Only this handle is told.
    let (wrong, right) = (conn.lpush("text", "x"), conn.get::<String>("text"));
    let error = wrong.wait().unwrap_err();
    assert_eq!(error.code(), Some("WRONGTYPE"));
    println!("{error}");
    assert_eq!(right.wait()?, "hello");

    // The reply does not fit the type. It was read whole.
    assert!(matches!(conn.get::<String>("nothing").wait(), Err(Error::Nil)));
    let error = conn.get::<i64>("text").wait().unwrap_err();
    assert!(matches!(error, Error::UnexpectedReply(_)));
    println!("{error}");

    // Nothing was sent: arguments that cannot be, and commands that the queue of replies cannot bear.
    assert!(matches!(conn.del([""; 0]).wait(), Err(Error::Argument(_))));
    let error = conn.command::<()>("SUBSCRIBE", "news").wait().unwrap_err();
    assert!(matches!(error, Error::Refused(_)));
    println!("{error}");

    // An error inside a reply is the value of its element.
    let script = "return {1, redis.error_reply('ODD no')}";
    let reply: Vec<Value> = conn.eval(script, (), ()).wait()?;
    assert_eq!(reply[1].as_error().and_then(|error| error.code()), Some("ODD"));

    // An error that nobody waited for is told by `sync`, once.
    conn.incr("text").detach();
    drop(conn.incr("text"));
    assert_eq!(conn.stats().unseen_errors, 2); // the drop has read up to its own reply
    assert_eq!(conn.sync().unwrap_err().code(), Some("ERR"));
    conn.sync()?;

    // A wait that is too long. The handle is as good as before; given up, its late reply is skipped.
    let pop = conn.blpop::<String, String>("empty", Duration::from_millis(100));
    let Err(WaitError::Timeout(pop)) = pop.wait_timeout(Duration::from_millis(5)) else { panic!("nothing to pop") };
    pop.detach();
    assert_eq!(conn.get::<String>("text").wait()?, "hello");
    assert!(!conn.is_broken());

    // The connection breaks. Each handle tells whether its command may have run.
    let other = Connection::open(&url)?;
    let id = conn.client_id().wait()?;
    let pop = conn.blpop::<String, String>("empty", None);
    conn.flush()?;
    let killed = other.client_kill_with(ClientKillFilter::new().id(id)).wait()?;
    assert_eq!(killed, 1);
    let Err(Error::ConnectionLost(lost)) = pop.wait() else { panic!("the connection is closed") };
    assert_eq!(lost.sent(), Sent::Fully);
    println!("{lost}");

    // From now on every command fails without I/O, and says that it was not sent.
    assert!(conn.is_broken());
    let Err(Error::ConnectionLost(lost)) = conn.incr("n").wait() else { panic!("it is broken") };
    assert_eq!(lost.sent(), Sent::Unsent);
    assert_eq!(other.exists("n").wait()?, 0);
    println!("everything was as it should be");
    Ok(())
}
