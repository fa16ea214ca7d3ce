//! SCAN and its kin: pages, and iterators over all of them.

use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::vec;

use super::parts::{Named, Owned, parts_to_args};
use crate::args::{Arguments, Command, ToArg, ToArgs, cmd};
use crate::commands::{Execute, Handle};
use crate::error::{ConnectionLost, Error, Result, Sent};
use crate::resp::Frame;
use crate::values::FromReply;

/// Options of SCAN, HSCAN, SSCAN and ZSCAN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct ScanOptions {
    pattern: Option<Owned>,
    count: Option<u64>,
    kind: Option<Owned>,
}

impl ScanOptions {
    /// Everything, in pages as large as the server likes.
    pub fn new() -> Self {
        ScanOptions::default()
    }

    /// Only keys, fields or members that match a pattern: `*`, `?`, `[a-z]` (MATCH). Pages may be small or empty then,
    /// since the server looks for matches among so many as it would have sent.
    #[doc(alias("pattern", "scan_match"))]
    pub fn match_(mut self, pattern: impl ToArg) -> Self {
        self.pattern = Some(Owned::new(pattern));
        self
    }

    /// About how many the server looks at for one page (COUNT); it takes 10 by itself. Zero is refused by the server.
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Only keys that hold this: `string`, `list`, `set`, `zset`, `hash`, `stream`, or the name of a module's type (TYPE,
    /// since 6.0). Only for SCAN: with the others, which have no keys to tell apart, the server answers with an error.
    pub fn type_(mut self, kind: impl ToArg) -> Self {
        self.kind = Some(Owned::new(kind));
        self
    }

    fn parts(&self) -> impl ToArgs {
        (Named("MATCH", self.pattern.as_ref()), Named("COUNT", self.count), Named("TYPE", self.kind.as_ref()))
    }
}

parts_to_args!(ScanOptions);

/// One page of a scan: some elements, perhaps none, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Page<T> {
    /// What to pass to get the next page. 0 is the end; only this is, and not a page without elements.
    pub cursor: u64,
    /// The elements. Each may come again on another page.
    pub items: Vec<T>,
}

impl<T: FromReply> FromReply for Page<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        <(u64, Vec<T>)>::from_reply(frame).map(|(cursor, items)| Page { cursor, items })
    }
}

/// The commands of the SCAN family, page by page, for batches and transactions. [`ScanCommands`] has iterators.
///
/// A scan begins with cursor 0, and each page has the cursor of the next one. Elements that are there from the beginning
/// to the end of a scan are found at least once.
pub trait ScanPageCommands: Execute {
    /// A page of the keys of the database.
    ///
    /// Since 2.8.
    ///
    /// [SCAN](https://redis.io/docs/latest/commands/scan/)
    fn scan_page<T: FromReply>(self, cursor: u64, options: &ScanOptions) -> Self::Reply<Page<T>> {
        self.execute(scan(cursor, options))
    }

    /// A page of the fields of a hash and their values.
    ///
    /// Since 2.8.
    ///
    /// [HSCAN](https://redis.io/docs/latest/commands/hscan/)
    fn hscan_page<K: FromReply, V: FromReply>(
        self,
        key: impl ToArg,
        cursor: u64,
        options: &ScanOptions,
    ) -> Self::Reply<Page<(K, V)>> {
        self.execute(of_key("HSCAN", key, cursor, options))
    }

    /// A page of the fields of a hash, without their values.
    ///
    /// Since Redis 7.4 and Valkey 8.0.
    ///
    /// [HSCAN](https://redis.io/docs/latest/commands/hscan/)
    fn hscan_novalues_page<T: FromReply>(
        self,
        key: impl ToArg,
        cursor: u64,
        options: &ScanOptions,
    ) -> Self::Reply<Page<T>> {
        self.execute(of_key("HSCAN", key, cursor, options).arg("NOVALUES"))
    }

    /// A page of the members of a set.
    ///
    /// Since 2.8.
    ///
    /// [SSCAN](https://redis.io/docs/latest/commands/sscan/)
    fn sscan_page<T: FromReply>(self, key: impl ToArg, cursor: u64, options: &ScanOptions) -> Self::Reply<Page<T>> {
        self.execute(of_key("SSCAN", key, cursor, options))
    }

    /// A page of the members of a sorted set and their scores.
    ///
    /// Since 2.8.
    ///
    /// [ZSCAN](https://redis.io/docs/latest/commands/zscan/)
    fn zscan_page<T: FromReply>(
        self,
        key: impl ToArg,
        cursor: u64,
        options: &ScanOptions,
    ) -> Self::Reply<Page<(T, f64)>> {
        self.execute(of_key("ZSCAN", key, cursor, options))
    }

    /// A page of the members of a sorted set, without their scores.
    ///
    /// Only Valkey, since 8.0.
    ///
    /// [ZSCAN](https://valkey.io/commands/zscan/)
    fn zscan_noscores_page<T: FromReply>(
        self,
        key: impl ToArg,
        cursor: u64,
        options: &ScanOptions,
    ) -> Self::Reply<Page<T>> {
        self.execute(of_key("ZSCAN", key, cursor, options).arg("NOSCORES"))
    }
}

/// The commands of the SCAN family as iterators over everything: see [`Scan`].
///
/// ```no_run
/// # use redefer::{prelude::*, commands::ScanOptions};
/// # fn main() -> redefer::Result<()> {
/// # let conn = Connection::open("redis://127.0.0.1:6379")?;
/// for key in conn.scan_with::<String>(ScanOptions::new().match_("user:*").count(1000)) {
///     println!("{}", key?);
/// }
/// # Ok(())
/// # }
/// ```
pub trait ScanCommands: ScanPageCommands + Copy {
    /// The keys of the database.
    ///
    /// Since 2.8.
    ///
    /// [SCAN](https://redis.io/docs/latest/commands/scan/)
    fn scan<T: FromReply>(self) -> Scan<Self, T> {
        self.scan_with(ScanOptions::new())
    }

    /// Like [`scan`](Self::scan), with options.
    ///
    /// [SCAN](https://redis.io/docs/latest/commands/scan/)
    fn scan_with<T: FromReply>(self, options: ScanOptions) -> Scan<Self, T> {
        Scan::new(self, Owned::new(""), options, |on, _, cursor, options| on.page(scan(cursor, options)))
    }

    /// The fields of a hash and their values; nothing if there is no such key.
    ///
    /// Since 2.8.
    ///
    /// [HSCAN](https://redis.io/docs/latest/commands/hscan/)
    fn hscan<K: FromReply, V: FromReply>(self, key: impl ToArg) -> Scan<Self, (K, V)> {
        self.hscan_with(key, ScanOptions::new())
    }

    /// Like [`hscan`](Self::hscan), with options.
    ///
    /// [HSCAN](https://redis.io/docs/latest/commands/hscan/)
    fn hscan_with<K: FromReply, V: FromReply>(self, key: impl ToArg, options: ScanOptions) -> Scan<Self, (K, V)> {
        Scan::new(self, Owned::new(key), options, |on, key, cursor, options| {
            on.page(of_key("HSCAN", key, cursor, options))
        })
    }

    /// The fields of a hash, without their values; nothing if there is no such key.
    ///
    /// Since Redis 7.4 and Valkey 8.0.
    ///
    /// [HSCAN](https://redis.io/docs/latest/commands/hscan/)
    fn hscan_novalues<T: FromReply>(self, key: impl ToArg) -> Scan<Self, T> {
        self.hscan_novalues_with(key, ScanOptions::new())
    }

    /// Like [`hscan_novalues`](Self::hscan_novalues), with options.
    ///
    /// [HSCAN](https://redis.io/docs/latest/commands/hscan/)
    fn hscan_novalues_with<T: FromReply>(self, key: impl ToArg, options: ScanOptions) -> Scan<Self, T> {
        Scan::new(self, Owned::new(key), options, |on, key, cursor, options| {
            on.page(of_key("HSCAN", key, cursor, options).arg("NOVALUES"))
        })
    }

    /// The members of a set; nothing if there is no such key.
    ///
    /// Since 2.8.
    ///
    /// [SSCAN](https://redis.io/docs/latest/commands/sscan/)
    fn sscan<T: FromReply>(self, key: impl ToArg) -> Scan<Self, T> {
        self.sscan_with(key, ScanOptions::new())
    }

    /// Like [`sscan`](Self::sscan), with options.
    ///
    /// [SSCAN](https://redis.io/docs/latest/commands/sscan/)
    fn sscan_with<T: FromReply>(self, key: impl ToArg, options: ScanOptions) -> Scan<Self, T> {
        Scan::new(self, Owned::new(key), options, |on, key, cursor, options| {
            on.page(of_key("SSCAN", key, cursor, options))
        })
    }

    /// The members of a sorted set and their scores; nothing if there is no such key.
    ///
    /// Since 2.8.
    ///
    /// [ZSCAN](https://redis.io/docs/latest/commands/zscan/)
    fn zscan<T: FromReply>(self, key: impl ToArg) -> Scan<Self, (T, f64)> {
        self.zscan_with(key, ScanOptions::new())
    }

    /// Like [`zscan`](Self::zscan), with options.
    ///
    /// [ZSCAN](https://redis.io/docs/latest/commands/zscan/)
    fn zscan_with<T: FromReply>(self, key: impl ToArg, options: ScanOptions) -> Scan<Self, (T, f64)> {
        Scan::new(self, Owned::new(key), options, |on, key, cursor, options| {
            on.page(of_key("ZSCAN", key, cursor, options))
        })
    }

    /// The members of a sorted set, without their scores; nothing if there is no such key.
    ///
    /// Only Valkey, since 8.0.
    ///
    /// [ZSCAN](https://valkey.io/commands/zscan/)
    fn zscan_noscores<T: FromReply>(self, key: impl ToArg) -> Scan<Self, T> {
        self.zscan_noscores_with(key, ScanOptions::new())
    }

    /// Like [`zscan_noscores`](Self::zscan_noscores), with options.
    ///
    /// [ZSCAN](https://valkey.io/commands/zscan/)
    fn zscan_noscores_with<T: FromReply>(self, key: impl ToArg, options: ScanOptions) -> Scan<Self, T> {
        Scan::new(self, Owned::new(key), options, |on, key, cursor, options| {
            on.page(of_key("ZSCAN", key, cursor, options).arg("NOSCORES"))
        })
    }

    /// Issues a command, waits for its reply, and says where that has come from.
    #[doc(hidden)]
    fn page<T: FromReply, A: Arguments>(self, command: Command<A>) -> Result<(Origin, Page<T>)> {
        Ok((Origin::only(), self.execute(command).wait()?))
    }
}

fn scan(cursor: u64, options: &ScanOptions) -> Command<impl Arguments> {
    cmd("SCAN").arg(cursor).options(options)
}

fn of_key<K: ToArg>(name: &'static str, key: K, cursor: u64, options: &ScanOptions) -> Command<impl Arguments> {
    cmd(name).key(key).arg(cursor).options(options)
}

/// Which connection a page has come by. A server that has started anew is at the same address, and has other cursors.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Of a cluster.
    pub(crate) node: u16,
    /// Which of the connections; 0 if that is not known.
    pub(crate) number: u64,
}

impl Origin {
    /// Of an executor that has one connection.
    fn only() -> Self {
        Origin { node: 0, number: 1 }
    }

    /// The only connection is made again now and then: how often it had been before the page was asked for, and when that was
    /// there.
    pub(crate) fn of_reconnects(before: u64, after: u64) -> Self {
        Origin { node: 0, number: if before == after { before + 1 } else { 0 } }
    }

    fn is(self, other: Origin) -> bool {
        (self.node, self.number) == (other.node, other.number) && self.number != 0
    }
}

/// How often a scan begins anew.
pub(crate) const RESTARTS: u32 = 15;

/// How the page at a cursor is asked for and waited for.
type Fetch<C, T> = fn(C, &Owned, u64, &ScanOptions) -> Result<(Origin, Page<T>)>;

/// A lazy, fallible iterator over all elements of a scan: made by [`ScanCommands`].
///
/// It reads page by page: `next` asks for a page and waits for it when the one before is used up, and only then, so that
/// nothing is on its way between two calls, and the connection can be used in the loop. The first page is asked for by the
/// first `next`.
///
/// `next` gives another element; or an error, after which the iterator ends; or `None` at the end. What is in the database
/// while the scan lasts is given at least once. An element may be given twice, and one that comes or goes meanwhile may
/// be given or not.
///
/// A cursor is of use to one process of a server only. Where the connection has been made again meanwhile (with a
/// [policy](crate::Reconnect)), or on a cluster another node has the key, the scan begins anew, so that elements come again. After
/// fifteen times it ends with [`Error::ConnectionLost`].
///
/// # Drop
///
/// Costs nothing: the server keeps nothing for a scan.
#[must_use = "a scan asks for nothing until it is iterated over"]
pub struct Scan<C, T> {
    on: C,
    key: Owned,
    options: ScanOptions,
    fetch: Fetch<C, T>,
    /// The cursor of the next page, while there is one, and where it has come from.
    next: Option<u64>,
    origin: Origin,
    restarts: u32,
    items: vec::IntoIter<T>,
}

impl<C: Copy, T> Scan<C, T> {
    fn new(on: C, key: Owned, options: ScanOptions, fetch: Fetch<C, T>) -> Self {
        let items = Vec::new().into_iter();
        Scan { on, key, options, fetch, next: Some(0), origin: Origin::only(), restarts: 0, items }
    }

    /// The page at a cursor, or if whoever has answered does not know that, the first one.
    fn page(&mut self, mut cursor: u64) -> Result<Page<T>> {
        loop {
            let (origin, page) = (self.fetch)(self.on, &self.key, cursor, &self.options)?;
            if cursor == 0 || origin.is(self.origin) {
                self.origin = origin;
                return Ok(page);
            }
            if self.restarts == RESTARTS {
                let cause = io::Error::other("the server was another one for each page of a scan");
                return Err(Error::ConnectionLost(Arc::new(ConnectionLost::new(Sent::Fully, cause.into()))));
            }
            self.restarts += 1;
            cursor = 0;
        }
    }
}

impl<C: Copy, T> Iterator for Scan<C, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(Ok(item));
            }
            let page = self.page(self.next?);
            self.next = page.as_ref().ok().map(|page| page.cursor).filter(|cursor| *cursor != 0);
            match page {
                Ok(page) => self.items = page.items.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let ready = self.items.len();
        (ready, self.next.is_none().then_some(ready))
    }
}

impl<C: Copy, T> FusedIterator for Scan<C, T> {}

impl<C, T> fmt::Debug for Scan<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("next", &self.next).field("ready", &self.items.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::commands::recorder::{Recorder, sent};
    use crate::resp::Decoder;

    impl ScanPageCommands for &Recorder {}
    impl ScanCommands for &Recorder {}

    /// Pages that are answered in turn, and the cursors that were asked for.
    struct Pages(RefCell<PagesAndCursors>);

    type PagesAndCursors = (Vec<Result<Page<i64>>>, Vec<u64>);

    impl Pages {
        fn new(mut pages: Vec<Result<Page<i64>>>) -> Self {
            pages.reverse();
            Pages(RefCell::new((pages, Vec::new())))
        }

        fn scan(&self) -> Scan<&Self, i64> {
            Scan::new(self, Owned::new(""), ScanOptions::new(), |on, _, cursor, _| {
                let mut inner = on.0.borrow_mut();
                inner.1.push(cursor);
                let page = inner.0.pop().expect("no page is asked for behind the end");
                page.map(|page| (Origin::only(), page))
            })
        }

        fn asked(&self) -> Vec<u64> {
            self.0.borrow().1.clone()
        }
    }

    fn page(cursor: u64, items: &[i64]) -> Result<Page<i64>> {
        Ok(Page { cursor, items: items.to_vec() })
    }

    #[test]
    fn an_empty_page_is_not_the_end() -> Result<()> {
        let pages = Pages::new(vec![page(7, &[]), page(u64::MAX, &[1, 2]), page(3, &[]), page(0, &[2])]);
        assert_eq!(pages.scan().collect::<Result<Vec<_>>>()?, [1, 2, 2]);
        assert_eq!(pages.asked(), [0, 7, u64::MAX, 3]);
        Ok(())
    }

    #[test]
    fn the_next_page_is_asked_for_when_the_one_before_is_used_up() {
        let pages = Pages::new(vec![page(5, &[1, 2]), page(0, &[])]);
        let mut scan = pages.scan();
        assert_eq!((pages.asked(), scan.size_hint()), (vec![], (0, None)));
        assert!(scan.next().is_some_and(|item| item.is_ok()) && scan.next().is_some_and(|item| item.is_ok()));
        assert_eq!(pages.asked(), [0]);
        assert!(scan.next().is_none() && scan.next().is_none());
        assert_eq!((pages.asked(), scan.size_hint()), (vec![0, 5], (0, Some(0))));
    }

    #[test]
    fn an_error_is_shown_and_ends_the_scan() {
        let pages = Pages::new(vec![page(5, &[1]), Err(Error::Timeout)]);
        let mut scan = pages.scan();
        assert!(matches!(scan.next(), Some(Ok(1))));
        assert!(matches!(scan.next(), Some(Err(Error::Timeout))));
        assert!(scan.next().is_none());
    }

    #[test]
    fn a_cursor_of_another_connection_is_of_no_use() -> Result<()> {
        /// Says by which connection each page has come.
        struct Numbers(RefCell<(Vec<u64>, Vec<u64>)>);
        fn scan(on: &Numbers) -> Scan<&Numbers, u64> {
            Scan::new(on, Owned::new(""), ScanOptions::new(), |on, _, cursor, _| {
                let mut inner = on.0.borrow_mut();
                inner.1.push(cursor);
                let number = inner.0.pop().unwrap_or(0);
                // Three pages, with the element 0, 1 and 2.
                Ok((Origin { node: 0, number }, Page { cursor: (cursor + 1) % 3, items: vec![cursor] }))
            })
        }
        for (numbers, elements, cursors) in [
            (vec![1, 1, 1], vec![0, 1, 2], vec![0, 1, 2]),
            (vec![1, 1, 2, 2, 2, 2], vec![0, 1, 0, 1, 2], vec![0, 1, 2, 0, 1, 2]),
            // Where nobody knows by which one, it is another one.
            (vec![0, 0, 3, 3, 3], vec![0, 0, 1, 2], vec![0, 1, 0, 1, 2]),
        ] {
            let on = Numbers(RefCell::new((numbers.into_iter().rev().collect(), Vec::new())));
            assert_eq!(scan(&on).collect::<Result<Vec<_>>>()?, elements);
            assert_eq!(on.0.borrow().1, cursors);
        }
        let on = Numbers(RefCell::new((Vec::new(), Vec::new())));
        let outcome: Vec<_> = scan(&on).collect();
        assert_eq!(outcome.len(), 1 + RESTARTS as usize + 1);
        assert!(outcome.last().is_some_and(|last| last.as_ref().is_err_and(Error::is_connection_lost)));
        Ok(())
    }

    #[test]
    fn pages_are_decoded_with_pairs_and_large_cursors() -> Result<()> {
        fn decode<T: FromReply>(wire: &str) -> Result<Page<T>> {
            let bytes = wire.replace(' ', "\r\n").into_bytes();
            let (frame, _) = Decoder::new().decode(&bytes)?.expect("a whole reply");
            Page::from_reply(frame)
        }
        let page = decode::<String>("*2 $20 18446744073709551615 *2 $1 a $1 b ")?;
        assert_eq!((page.cursor, page.items), (u64::MAX, vec!["a".into(), "b".into()]));
        let page = decode::<(String, f64)>("*2 $1 0 *4 $1 a $3 0.5 $1 b $4 -inf ")?;
        assert_eq!(page.items, [("a".into(), 0.5), ("b".into(), f64::NEG_INFINITY)]);
        assert_eq!(decode::<(String, f64)>("*2 $1 0 *0 ")?.items, []);
        assert!(decode::<i64>("*1 $1 0 ").is_err() && decode::<i64>(":0 ").is_err());
        Ok(())
    }

    #[test]
    fn options_are_sent_as_the_server_reads_them() {
        let options = ScanOptions::new().match_("a*").count(100);
        let words = "MATCH a* COUNT 100";
        for (got, want) in [
            (sent(|on| on.scan_page::<String>(7, &ScanOptions::new())), "SCAN 7".into()),
            (sent(|on| on.scan_page::<String>(7, &options.clone().type_("hash"))), format!("SCAN 7 {words} TYPE hash")),
            (sent(|on| on.hscan_page::<String, i64>("k", 7, &options)), format!("HSCAN [k] 7 {words}")),
            (sent(|on| on.hscan_novalues_page::<String>("k", 7, &options)), format!("HSCAN [k] 7 {words} NOVALUES")),
            (sent(|on| on.sscan_page::<String>("k", 7, &options)), format!("SSCAN [k] 7 {words}")),
            (sent(|on| on.zscan_page::<String>("k", 7, &options)), format!("ZSCAN [k] 7 {words}")),
            (sent(|on| on.zscan_noscores_page::<String>("k", 7, &options)), format!("ZSCAN [k] 7 {words} NOSCORES")),
            (sent(|on| drop(on.scan::<String>())), String::new()),
            (sent(|on| on.scan::<String>().next()), "SCAN 0".into()),
            (sent(|on| on.scan_with::<String>(options.clone()).next()), format!("SCAN 0 {words}")),
            (sent(|on| on.hscan_with::<String, i64>(5, options.clone()).next()), format!("HSCAN [5] 0 {words}")),
            (sent(|on| on.hscan_novalues::<String>("k").next()), "HSCAN [k] 0 NOVALUES".into()),
            (sent(|on| on.sscan::<String>("k").next()), "SSCAN [k] 0".into()),
            (sent(|on| on.zscan::<String>("k").next()), "ZSCAN [k] 0".into()),
            (sent(|on| on.zscan_noscores::<String>("k").next()), "ZSCAN [k] 0 NOSCORES".into()),
        ] {
            assert_eq!(got, want);
        }
    }
}
