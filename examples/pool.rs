//! Many threads and few connections: sessions of a web server, each looked up by the thread that serves the request.

use std::thread;
use std::time::Duration;

use redefer::pool::Pool;
use redefer::prelude::*;
use redefer::testing::Server;

/// What one request does.
fn serve(pool: &Pool, user: u32) -> redefer::Result<u64> {
    // Waits for a connection if all are taken. It goes back at the end of the function, whatever happens.
    let conn = pool.get()?;
    let session = format!("session:{user}");
    let visits = conn.hincrby(&session, "visits", 1);
    let alive = conn.expire(&session, Duration::from_secs(3600));
    alive.wait()?;
    Ok(visits.wait()? as u64)
}

fn main() -> redefer::Result<()> {
    let server = Server::start()?;
    let pool = Pool::builder(server.url()).max_size(8).checkout_timeout(Duration::from_secs(5)).build()?;
    let visits: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..64u32)
            .map(|n| {
                let pool = &pool;
                scope.spawn(move || (0..100).map(|_| serve(pool, n % 16)).collect::<redefer::Result<Vec<_>>>())
            })
            .collect();
        let served = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        served.map(|served| served.map(|visits| visits.len() as u64)).sum::<redefer::Result<u64>>()
    })?;
    println!("{visits} requests by 64 threads over {} connections", pool.connections());
    let sessions: i64 = pool.get()?.dbsize().wait()?;
    assert_eq!((visits, sessions), (6400, 16));
    Ok(())
}
