//! Options and results of the commands on keys.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::args::{ToArg, ToArgs};
use crate::commands::parts::{Flag, Named, Owned, parts_to_args, seconds, unix_millis, word_to_arg};
use crate::error::{Error, Result, UnexpectedReply};
use crate::resp::Frame;
use crate::values::FromReply;

/// Under which condition an expiry is set. A key that does not expire counts as one that expires at the end of time.
///
/// For keys since 7.0; for fields of hashes since there is such a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExpireCondition {
    /// Only if there is none yet.
    Nx,
    /// Only if there is one already.
    Xx,
    /// Only if the new one is later.
    Gt,
    /// Only if the new one is earlier.
    Lt,
}

impl ExpireCondition {
    fn word(self) -> &'static str {
        match self {
            ExpireCondition::Nx => "NX",
            ExpireCondition::Xx => "XX",
            ExpireCondition::Gt => "GT",
            ExpireCondition::Lt => "LT",
        }
    }
}

word_to_arg!(ExpireCondition);

/// Options of COPY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct CopyOptions {
    database: Option<u32>,
    replace: bool,
}

impl CopyOptions {
    /// Within the database, and only to a new key.
    pub fn new() -> Self {
        CopyOptions::default()
    }

    /// Copies to another database (DB).
    pub fn database(mut self, database: u32) -> Self {
        self.database = Some(database);
        self
    }

    /// Overwrites a key that exists (REPLACE).
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    fn parts(&self) -> impl ToArgs {
        (Named("DB", self.database), Flag("REPLACE", self.replace))
    }
}

/// Options of MIGRATE.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct MigrateOptions {
    copy: bool,
    replace: bool,
    user: Option<Owned>,
    password: Option<Owned>,
}

impl MigrateOptions {
    /// Moves keys, and only to new ones, on a server that asks for no password.
    pub fn new() -> Self {
        MigrateOptions::default()
    }

    /// Leaves the keys where they were, too (COPY, since 3.0).
    pub fn copy(mut self) -> Self {
        self.copy = true;
        self
    }

    /// Overwrites keys that exist at the destination (REPLACE, since 3.0).
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// The destination's password (AUTH, since 4.0.7).
    pub fn password(mut self, password: impl ToArg) -> Self {
        self.password = Some(Owned::new(password));
        self
    }

    /// A user of the destination, and their password (AUTH2, since 6.0).
    pub fn user(mut self, user: impl ToArg, password: impl ToArg) -> Self {
        self.user = Some(Owned::new(user));
        self.password(password)
    }

    fn parts(&self) -> impl ToArgs {
        let (auth, auth2) = match (&self.user, &self.password) {
            (Some(user), Some(password)) => (None, Some((user, password))),
            (_, password) => (password.as_ref(), None),
        };
        (Flag("COPY", self.copy), Flag("REPLACE", self.replace), Named("AUTH", auth), Named("AUTH2", auth2))
    }
}

impl fmt::Debug for MigrateOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigrateOptions")
            .field("copy", &self.copy)
            .field("replace", &self.replace)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .finish()
    }
}

/// When a restored key expires: after a time, or at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RestoreExpiry {
    In(Duration),
    At(SystemTime),
}

/// Options of RESTORE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct RestoreOptions {
    expiry: Option<RestoreExpiry>,
    replace: bool,
    idle_time: Option<Duration>,
    freq: Option<u8>,
}

impl RestoreOptions {
    /// A key that does not expire, and only a new one.
    pub fn new() -> Self {
        RestoreOptions::default()
    }

    /// The key expires after this time, in milliseconds, rounded up, and at least 1.
    pub fn expire_in(mut self, time: Duration) -> Self {
        self.expiry = Some(RestoreExpiry::In(time));
        self
    }

    /// The key expires at this time by the server's clock, in milliseconds, rounded up (ABSTTL, since 5.0).
    pub fn expire_at(mut self, time: SystemTime) -> Self {
        self.expiry = Some(RestoreExpiry::At(time));
        self
    }

    /// Overwrites a key that exists (REPLACE, since 3.0).
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// Counts the key as unused for this time, in seconds, rounded up (IDLETIME, since 5.0).
    pub fn idle_time(mut self, time: Duration) -> Self {
        self.idle_time = Some(time);
        self
    }

    /// Counts the key as used this often, on the logarithmic scale of OBJECT FREQ (FREQ, since 5.0).
    pub fn freq(mut self, frequency: u8) -> Self {
        self.freq = Some(frequency);
        self
    }

    /// The argument between the key and the data, where 0 is no expiry.
    pub(super) fn ttl(&self) -> i64 {
        match self.expiry {
            None => 0,
            Some(RestoreExpiry::In(time)) => crate::commands::parts::timeout_millis(Some(time)),
            Some(RestoreExpiry::At(time)) => unix_millis(time).max(1),
        }
    }

    fn parts(&self) -> impl ToArgs {
        (
            Flag("REPLACE", self.replace),
            Flag("ABSTTL", matches!(self.expiry, Some(RestoreExpiry::At(_)))),
            Named("IDLETIME", self.idle_time.map(seconds)),
            Named("FREQ", self.freq.map(u16::from)),
        )
    }
}

/// Options of SORT.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct SortOptions {
    by: Option<Owned>,
    limit: Option<(i64, i64)>,
    get: Vec<Owned>,
    descending: bool,
    alphabetic: bool,
}

impl SortOptions {
    /// By the elements themselves, as numbers, ascending.
    pub fn new() -> Self {
        SortOptions::default()
    }

    /// By the values of the keys that this pattern names, with `*` for the element and `->` before a field of a hash
    /// (BY). A pattern without `*`, such as `nosort`, leaves the elements as they are.
    pub fn by(mut self, pattern: impl ToArg) -> Self {
        self.by = Some(Owned::new(pattern));
        self
    }

    /// Gives only `count` elements, from `offset` on; a negative count is all (LIMIT).
    pub fn limit(mut self, offset: i64, count: i64) -> Self {
        self.limit = Some((offset, count));
        self
    }

    /// Gives the values of the keys that this pattern names in place of the elements; `#` is the element itself (GET).
    /// Given several times, each element is replaced by so many, in turn; nil stands for a key that is missing.
    ///
    /// Two can be read as pairs, `sort_with::<(i64, Option<String>)>`. Three and more come flat: read them as what fits each,
    /// such as `Option<String>`, into a vector, and take its `chunks_exact(3)`.
    pub fn get(mut self, pattern: impl ToArg) -> Self {
        self.get.push(Owned::new(pattern));
        self
    }

    /// The greatest first (DESC).
    pub fn desc(mut self) -> Self {
        self.descending = true;
        self
    }

    /// By text rather than by number (ALPHA).
    pub fn alpha(mut self) -> Self {
        self.alphabetic = true;
        self
    }

    fn parts(&self) -> impl ToArgs {
        (
            Named("BY", self.by.as_ref()),
            Named("LIMIT", self.limit),
            Gets(&self.get),
            Flag("DESC", self.descending),
            Flag("ALPHA", self.alphabetic),
        )
    }
}

/// Each pattern behind a GET of its own.
struct Gets<'a>(&'a [Owned]);

impl ToArgs for Gets<'_> {
    fn write_args(&self, out: &mut crate::args::ArgWriter<'_>) {
        for pattern in self.0 {
            out.arg("GET");
            out.arg(pattern);
        }
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        2 * self.0.len()
    }
}

parts_to_args!(CopyOptions, MigrateOptions, RestoreOptions, SortOptions);

/// The error for a number that is no time.
#[cold]
fn out_of_range(got: &'static str) -> Error {
    UnexpectedReply::new("a time, -1 or -2", got).into()
}

fn time(n: i64) -> Result<u64> {
    u64::try_from(n).map_err(|_| out_of_range("a negative integer"))
}

macro_rules! remaining {
    ($($(#[$docs:meta])* $name:ident: $unit:ident),* $(,)?) => {$(
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            /// There is no such key or field.
            Missing,
            /// It does not expire.
            NoExpiry,
            /// It expires after this time.
            In(Duration),
        }

        impl $name {
            /// The time that is left, if it expires.
            pub fn remaining(self) -> Option<Duration> {
                match self {
                    $name::In(time) => Some(time),
                    _ => None,
                }
            }
        }

        impl FromReply for $name {
            fn from_reply(frame: Frame<'_>) -> Result<Self> {
                match i64::from_reply(frame)? {
                    -2 => Ok($name::Missing),
                    -1 => Ok($name::NoExpiry),
                    n => Ok($name::In(Duration::$unit(time(n)?))),
                }
            }
        }
    )*};
}

remaining! {
    /// How long a key or field has to live, in whole seconds.
    Ttl: from_secs,
    /// How long a key or field has to live, in milliseconds.
    Pttl: from_millis,
}

macro_rules! expires_at {
    ($($(#[$docs:meta])* $name:ident: $unit:ident),* $(,)?) => {$(
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            /// There is no such key or field.
            Missing,
            /// It does not expire.
            NoExpiry,
            /// It expires at this time by the server's clock.
            At(SystemTime),
        }

        impl $name {
            /// The time at which it expires, if it does.
            pub fn time(self) -> Option<SystemTime> {
                match self {
                    $name::At(time) => Some(time),
                    _ => None,
                }
            }
        }

        impl FromReply for $name {
            fn from_reply(frame: Frame<'_>) -> Result<Self> {
                match i64::from_reply(frame)? {
                    -2 => Ok($name::Missing),
                    -1 => Ok($name::NoExpiry),
                    n => {
                        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::$unit(time(n)?));
                        time.map($name::At).ok_or_else(|| out_of_range("another integer"))
                    }
                }
            }
        }
    )*};
}

expires_at! {
    /// When a key or field expires, in whole seconds.
    ExpireTime: from_secs,
    /// When a key or field expires, in milliseconds.
    PexpireTime: from_millis,
}

/// For how long a key has not been used, in whole seconds: the reply of OBJECT IDLETIME.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdleTime(pub Duration);

/// The reply of MIGRATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Migrated {
    /// The keys that exist have been moved.
    Done,
    /// None of the keys exists.
    NoKey,
}

impl FromReply for IdleTime {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        u64::from_reply(frame).map(|n| IdleTime(Duration::from_secs(n)))
    }
}

impl FromReply for Migrated {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match frame {
            Frame::SimpleString(b"OK") => Ok(Migrated::Done),
            Frame::SimpleString(b"NOKEY") => Ok(Migrated::NoKey),
            other => Err(Error::unexpected("OK or NOKEY", &other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<T: FromReply>(n: i64) -> Result<T> {
        T::from_reply(Frame::Integer(n))
    }

    #[test]
    fn missing_and_no_expiry_are_told_from_times() -> Result<()> {
        let at = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        assert_eq!((decode::<Ttl>(-2)?, decode::<Ttl>(-1)?), (Ttl::Missing, Ttl::NoExpiry));
        assert_eq!(decode::<Ttl>(7)?, Ttl::In(Duration::from_secs(7)));
        assert_eq!((decode::<Pttl>(-2)?, decode::<Pttl>(0)?), (Pttl::Missing, Pttl::In(Duration::ZERO)));
        assert_eq!(decode::<Pttl>(7)?.remaining(), Some(Duration::from_millis(7)));
        assert_eq!((decode::<ExpireTime>(-2)?, decode::<ExpireTime>(7)?.time()), (ExpireTime::Missing, Some(at(7000))));
        assert_eq!(decode::<PexpireTime>(-1)?, PexpireTime::NoExpiry);
        assert_eq!(decode::<PexpireTime>(7)?, PexpireTime::At(at(7)));
        assert!(decode::<Ttl>(-3).is_err() && decode::<PexpireTime>(i64::MIN).is_err());
        // Whatever this platform makes of it, it is no panic.
        let _ = decode::<ExpireTime>(i64::MAX);
        assert!(matches!(Ttl::from_reply(Frame::Null), Err(Error::Nil)));
        Ok(())
    }

    #[test]
    fn migrate_answers_with_one_of_two_statuses() {
        assert!(matches!(Migrated::from_reply(Frame::SimpleString(b"OK")), Ok(Migrated::Done)));
        assert!(matches!(Migrated::from_reply(Frame::SimpleString(b"NOKEY")), Ok(Migrated::NoKey)));
        assert!(Migrated::from_reply(Frame::SimpleString(b"QUEUED")).is_err());
        assert!(matches!(Migrated::from_reply(Frame::Error(b"IOERR x")), Err(Error::Server(_))));
    }
}
