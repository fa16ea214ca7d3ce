//! Options and results of the commands on hashes.

use crate::args::ToArgs;
use crate::commands::parts::{Maybe, parts_to_args};
use crate::commands::string::SetExpiry;
use crate::error::{Result, UnexpectedReply};
use crate::resp::Frame;
use crate::values::FromReply;

/// Options of HSETEX: conditions and an expiry. Of each kind the last one given counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct HsetexOptions {
    key: Option<&'static str>,
    fields: Option<&'static str>,
    expiry: Option<SetExpiry>,
}

impl HsetexOptions {
    /// No condition, and no expiry.
    pub fn new() -> Self {
        HsetexOptions::default()
    }

    /// Only if there is no such key (NX: only Valkey, since 9.1).
    pub fn nx(mut self) -> Self {
        self.key = Some("NX");
        self
    }

    /// Only if there is such a key (XX: only Valkey, since 9.1).
    pub fn xx(mut self) -> Self {
        self.key = Some("XX");
        self
    }

    /// Only if none of the fields exists (FNX).
    pub fn fnx(mut self) -> Self {
        self.fields = Some("FNX");
        self
    }

    /// Only if all of the fields exist (FXX).
    pub fn fxx(mut self) -> Self {
        self.fields = Some("FXX");
        self
    }

    /// When the fields expire: a `Duration`, a `SystemTime`, or [`SetExpiry::KeepTtl`].
    pub fn expiry(mut self, expiry: impl Into<SetExpiry>) -> Self {
        self.expiry = Some(expiry.into());
        self
    }

    fn parts(&self) -> impl ToArgs {
        (self.key, self.fields, Maybe(self.expiry.as_ref()))
    }
}

parts_to_args!(HsetexOptions);

/// What became of one field under HEXPIRE and its kin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldExpiry {
    /// There is no such field, or no such key.
    Missing,
    /// The condition did not hold, and the expiry is as before.
    Unchanged,
    /// It expires as asked.
    Set,
    /// The time had passed already, so the field was deleted.
    Deleted,
}

/// What became of one field under HPERSIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldPersist {
    /// There is no such field, or no such key.
    Missing,
    /// It had no expiry.
    NoExpiry,
    /// Its expiry was taken away.
    Removed,
}

impl FromReply for FieldExpiry {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match i64::from_reply(frame)? {
            -2 => Ok(FieldExpiry::Missing),
            0 => Ok(FieldExpiry::Unchanged),
            1 => Ok(FieldExpiry::Set),
            2 => Ok(FieldExpiry::Deleted),
            _ => Err(UnexpectedReply::new("-2, 0, 1 or 2", "another integer").into()),
        }
    }
}

impl FromReply for FieldPersist {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match i64::from_reply(frame)? {
            -2 => Ok(FieldPersist::Missing),
            -1 => Ok(FieldPersist::NoExpiry),
            1 => Ok(FieldPersist::Removed),
            _ => Err(UnexpectedReply::new("-2, -1 or 1", "another integer").into()),
        }
    }
}
