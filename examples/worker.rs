//! A queue of jobs between two threads: a list, filled with RPUSH and emptied with BLPOP. Each thread has a connection
//! of its own: a connection belongs to one thread at a time, and BLPOP holds the one it waits on.

use std::thread;
use std::time::{Duration, Instant};

use redefer::prelude::*;
use redefer::testing::Server;

/// Takes jobs until one says stop. The results go out without waiting for them.
fn work(url: String) -> redefer::Result<u64> {
    let conn = Connection::open(url)?;
    let mut done = 0;
    loop {
        // Waits in the server. The time of the command is added to what the wait may take.
        let job: Option<(String, String)> = conn.blpop(["urgent", "jobs"], Duration::from_secs(5)).wait()?;
        let Some((queue, job)) = job else { continue }; // the time has passed: nil
        if job == "stop" {
            break;
        }
        conn.rpush("results", format!("{queue}: {}", job.to_uppercase())).detach();
        conn.flush()?; // `detach` alone does not send
        done += 1;
    }
    conn.sync()?; // all results have arrived, and an error would be told here
    Ok(done)
}

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
    let conn = Connection::open(&url)?;
    conn.del(["jobs", "urgent", "results", "nothing"]).wait()?;

    let worker = thread::spawn(move || work(url));
    let jobs: Vec<_> = (0..1000).map(|n| conn.rpush("jobs", format!("job {n}"))).collect();
    for job in jobs {
        job.wait()?;
    }
    conn.rpush("urgent", "now").wait()?;

    // Ask for the results as they come.
    let mut results = Vec::new();
    while results.len() < 1001 {
        let (_, result): (String, String) =
            conn.blpop("results", Duration::from_secs(5)).wait()?.ok_or(Error::Timeout)?;
        results.push(result);
    }
    conn.rpush("jobs", "stop").wait()?;
    assert_eq!(worker.join().expect("it does not panic")?, 1001);
    assert!(results.contains(&"urgent: NOW".to_owned()));
    results.retain(|result| result.starts_with("jobs"));
    assert_eq!((results.len(), results[0].as_str(), results[999].as_str()), (1000, "jobs: JOB 0", "jobs: JOB 999"));

    // Nothing comes: nil after the time. A wait behind a blocking command waits for that one as well.
    let start = Instant::now();
    let (nothing, length) = (conn.blpop::<String, String>("nothing", Duration::from_millis(50)), conn.llen("jobs"));
    assert_eq!(length.wait()?, 0);
    assert!(start.elapsed() >= Duration::from_millis(40));
    assert_eq!(nothing.wait()?, None);
    println!("everything was as it should be");
    Ok(())
}
