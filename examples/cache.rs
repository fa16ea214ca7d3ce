//! Client-side caching: what has been read is answered from memory until the server says that it has changed.

use redefer::cache::{CacheConfig, Cached};
use redefer::prelude::*;
use redefer::testing::Server;

/// A page that is put together from what seldom changes.
fn page(cached: &Cached, user: u32) -> redefer::Result<String> {
    // All three at once: what is not in memory is pipelined.
    let title: Reply<'_, String> = cached.get("site:title");
    let name: Reply<'_, Option<String>> = cached.hget(format!("user:{user}"), "name");
    let news = cached.lrange::<String>("news", 0, 2);
    let (title, name) = (title.wait()?, name.wait()?);
    let news: Vec<String> = news.wait()?;
    Ok(format!("{title} | {} | {}", name.unwrap_or_else(|| "nobody".to_owned()), news.join(", ")))
}

fn main() -> redefer::Result<()> {
    let server = Server::start()?;
    let editor = Connection::open(server.url())?;
    editor.set("site:title", "The Times").wait()?;
    editor.hset("user:1", ("name", "Ada")).wait()?;
    editor.rpush("news", ["rain", "sun"]).wait()?;

    let cached = Cached::open(server.url(), CacheConfig::new().entries(100_000).bytes(64 << 20))?;
    for _ in 0..1000 {
        assert_eq!(page(&cached, 1)?, "The Times | Ada | rain, sun");
    }
    println!("{:?}", cached.cache_stats());
    assert_eq!(cached.cache_stats().misses, 3);

    // Another connection changes something, and the server tells. A round trip makes sure that it has.
    editor.lpush("news", "storm").wait()?;
    cached.ping().wait()?;
    assert_eq!(page(&cached, 1)?, "The Times | Ada | storm, rain, sun");
    assert_eq!(cached.cache_stats().misses, 4, "the list alone");

    // What this connection writes itself is seen at once.
    cached.hset("user:1", ("name", "Ada L.")).wait()?;
    assert_eq!(page(&cached, 1)?, "The Times | Ada L. | storm, rain, sun");
    println!(
        "{} of {} from memory",
        cached.cache_stats().hits,
        cached.cache_stats().hits + cached.cache_stats().misses
    );
    Ok(())
}
