//! A chat: one thread reads what is said in the rooms, another one joins them, talks and leaves.

use redefer::prelude::*;
use redefer::pubsub::{Event, Subscriber, SubscriberHandle};
use redefer::testing::Server;

/// What somebody at the keyboard does. The handle subscribes while the other thread is blocked in a read.
fn talk(conn: &Connection, rooms: &SubscriberHandle) -> redefer::Result<()> {
    for room in ["kitchen", "garden"] {
        let joined = rooms.subscribe(format!("room:{room}")).wait()?;
        println!("joined the {room}: {joined} rooms now");
        let readers = conn.publish(format!("room:{room}"), format!("hello, {room}")).wait()?;
        assert_eq!(readers, 1);
    }
    rooms.unsubscribe("room:kitchen").wait()?;
    assert_eq!(conn.publish("room:kitchen", "is anybody here?").wait()?, 0);
    conn.publish("room:garden", "goodbye").wait()?;
    Ok(())
}

/// Prints what is said until the talk is over.
fn listen(subscriber: &Subscriber) -> redefer::Result<Vec<String>> {
    let mut lines = Vec::new();
    for event in subscriber {
        match event? {
            Event::Message(message) => {
                let line: String = message.payload_as()?;
                println!("{}: {line}", String::from_utf8_lossy(message.channel()));
                lines.push(line);
                if lines.last().is_some_and(|line| line == "goodbye") {
                    break;
                }
            }
            // With a reconnect policy.
            Event::Reconnected(gap) => println!("something may be missing: {}", gap.cause()),
            _ => {}
        }
    }
    Ok(lines)
}

fn main() -> redefer::Result<()> {
    let server = Server::start()?;
    let subscriber = Subscriber::open(server.url())?;
    let handle = subscriber.handle();
    let conn = Connection::open(server.url())?;

    let talker = std::thread::spawn(move || {
        let outcome = talk(&conn, &handle);
        if outcome.is_err() {
            // The reader would wait for a goodbye that never comes.
            handle.stop();
        }
        outcome
    });
    let lines = listen(&subscriber)?;
    talker.join().expect("the talker does not panic")?;
    assert_eq!(lines, ["hello, kitchen", "hello, garden", "goodbye"]);

    // Nothing left to hear: the connection takes commands again.
    let conn = subscriber.into_connection()?;
    println!("back to commands: {} channels have readers", conn.pubsub_channels::<String>().wait::<Vec<_>>()?.len());
    Ok(())
}
