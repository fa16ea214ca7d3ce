//! Users and what they may do.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::args::{ArgWriter, ToArgs};
use crate::commands::connection::ClientInfo;
use crate::commands::record::{Field, fields, record, seconds, text, unix_millis};
use crate::error::{Error, Result};
use crate::resp::Frame;
use crate::values::FromReply;

record! {
    /// What a user is and may do: the reply of [`acl_getuser`](super::ServerCommands::acl_getuser).
    AclUser: "a user" {
        /// `on` or `off`, `nopass`, and others.
        "flags" flags: Vec<String>,
        /// The passwords, each as its SHA-256 in hexadecimal.
        "passwords" passwords: Vec<String>,
        /// The rules for commands: `-@all +get`.
        "commands" commands: String,
        /// The rules for keys: `~a* %R~b*`.
        "keys" keys: String = key_rules,
        /// The rules for channels: `&news*`. Since 6.2.
        "channels" channels: String = channel_rules,
        /// The rules for databases: `alldbs`, or `db=0,1`. Since Valkey 9.1.
        "databases" databases: Option<String>,
        /// Further sets of rules, any of which may allow a command. Since 7.0.
        "selectors" selectors: Vec<AclSelector>,
    }
}

impl AclUser {
    /// Whether the user can log in.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.flags.iter().any(|flag| flag == "on")
    }
}

record! {
    /// A set of rules of a user's beside the main one.
    AclSelector: "a selector" {
        /// The rules for commands.
        "commands" commands: String,
        /// The rules for keys.
        "keys" keys: String = key_rules,
        /// The rules for channels.
        "channels" channels: String = channel_rules,
        /// The rules for databases. Since Valkey 9.1.
        "databases" databases: Option<String>,
    }
}

fn key_rules(frame: Frame<'_>) -> Result<String> {
    rules(frame, '~')
}

fn channel_rules(frame: Frame<'_>) -> Result<String> {
    rules(frame, '&')
}

/// Rules as one text; before 7.0 they were a list of patterns without the sign in front.
fn rules(frame: Frame<'_>, sign: char) -> Result<String> {
    if !frame.is_aggregate() {
        return String::field(frame);
    }
    let patterns = Vec::<Vec<u8>>::from_reply(frame)?;
    let rules = patterns
        .iter()
        .map(|pattern| text(pattern))
        .map(|p| if p.starts_with(sign) { p } else { format!("{sign}{p}") });
    Ok(rules.collect::<Vec<_>>().join(" "))
}

fields!(ClientInfo);

record! {
    /// Something that was not allowed, from the list of [`acl_log`](super::ServerCommands::acl_log).
    AclLogEntry: "an entry of the ACL log" {
        /// How often it happened within a minute.
        "count" count: u64,
        /// What was not allowed: `auth`, `command`, `key`, `channel`, `database`.
        "reason" reason: String,
        /// Where it was tried: `toplevel`, `multi`, `lua`, `script`, `module`.
        "context" context: String,
        /// The command, the key or the channel; `AUTH` for a failed login.
        "object" object: String,
        /// The user, or the name that was given for a login.
        "username" username: String,
        /// How long ago it was.
        "age-seconds" age: Duration = seconds,
        /// The connection that tried.
        "client-info" client: Option<ClientInfo>,
        /// The number of the entry since the server started. Since 7.2.
        "entry-id" entry_id: Option<u64>,
        /// When it happened first. Since 7.2.
        "timestamp-created" created: Option<SystemTime> = unix_millis,
        /// When it happened last. Since 7.2.
        "timestamp-last-updated" last_updated: Option<SystemTime> = unix_millis,
    }
}

/// Whether a user may run a command: the reply of [`acl_dryrun`](super::ServerCommands::acl_dryrun).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AclDryRun {
    /// It may.
    Allowed,
    /// It may not, for the reason that the server gives.
    Denied(String),
}

impl AclDryRun {
    /// Whether the user may run the command.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        *self == AclDryRun::Allowed
    }
}

impl FromReply for AclDryRun {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match frame {
            Frame::SimpleString(b"OK") | Frame::Bulk(b"OK") => Ok(AclDryRun::Allowed),
            Frame::SimpleString(b"QUEUED") => Err(Error::unexpected("OK or a reason", &frame)),
            other => match other.as_bytes() {
                Some(reason) => Ok(AclDryRun::Denied(text(reason))),
                None => Err(Error::unexpected("OK or a reason", &other)),
            },
        }
    }
}

/// Rules for a user, in order: what [`acl_setuser`](super::ServerCommands::acl_setuser) takes.
///
/// Patterns and names go to the server as they are. The passwords are not in its `Debug`.
///
/// ```
/// use redefer::commands::AclRules;
///
/// let rules = AclRules::new().on().password("secret").keys("cache:*").allow_category("read").deny_command("keys");
/// let admin = AclRules::new().on().nopass().all_keys().all_channels().all_commands();
/// # let _ = (rules, admin);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct AclRules(Vec<String>);

impl AclRules {
    /// No rules: the user is only made, and may do nothing.
    pub fn new() -> Self {
        AclRules::default()
    }

    /// A rule in the language of the servers, for those that have no method here.
    pub fn rule(mut self, rule: impl Into<String>) -> Self {
        self.0.push(rule.into());
        self
    }

    fn with(self, sign: &str, rest: impl fmt::Display) -> Self {
        self.rule(format!("{sign}{rest}"))
    }

    /// The user can log in.
    pub fn on(self) -> Self {
        self.rule("on")
    }

    /// The user can't log in; connections that have stay.
    pub fn off(self) -> Self {
        self.rule("off")
    }

    /// A password more.
    pub fn password(self, password: &str) -> Self {
        self.with(">", password)
    }

    /// A password more, as its SHA-256 in hexadecimal.
    pub fn password_hash(self, hash: &str) -> Self {
        self.with("#", hash)
    }

    /// A password less. The error if there is no such password repeats it.
    pub fn remove_password(self, password: &str) -> Self {
        self.with("<", password)
    }

    /// A password less, by its SHA-256 in hexadecimal.
    pub fn remove_password_hash(self, hash: &str) -> Self {
        self.with("!", hash)
    }

    /// No password is asked for, and all there were are removed.
    pub fn nopass(self) -> Self {
        self.rule("nopass")
    }

    /// Removes all passwords, and `nopass` too.
    pub fn reset_passwords(self) -> Self {
        self.rule("resetpass")
    }

    /// Keys that match a pattern may be read and written.
    pub fn keys(self, pattern: &str) -> Self {
        self.with("~", pattern)
    }

    /// Keys that match a pattern may be read. Since 7.0.
    pub fn read_keys(self, pattern: &str) -> Self {
        self.with("%R~", pattern)
    }

    /// Keys that match a pattern may be written. Since 7.0.
    pub fn write_keys(self, pattern: &str) -> Self {
        self.with("%W~", pattern)
    }

    /// All keys.
    pub fn all_keys(self) -> Self {
        self.rule("allkeys")
    }

    /// No keys any more.
    pub fn reset_keys(self) -> Self {
        self.rule("resetkeys")
    }

    /// Channels that match a pattern. Since 6.2.
    pub fn channels(self, pattern: &str) -> Self {
        self.with("&", pattern)
    }

    /// All channels. Since 6.2.
    pub fn all_channels(self) -> Self {
        self.rule("allchannels")
    }

    /// No channels any more. Since 6.2.
    pub fn reset_channels(self) -> Self {
        self.rule("resetchannels")
    }

    /// A command, or a subcommand: `config|get`.
    pub fn allow_command(self, command: &str) -> Self {
        self.with("+", command)
    }

    /// Not this command, or subcommand.
    pub fn deny_command(self, command: &str) -> Self {
        self.with("-", command)
    }

    /// All commands of a category: those that [`acl_cat`](super::ServerCommands::acl_cat) lists.
    pub fn allow_category(self, category: &str) -> Self {
        self.with("+@", category)
    }

    /// No command of a category.
    pub fn deny_category(self, category: &str) -> Self {
        self.with("-@", category)
    }

    /// All commands.
    pub fn all_commands(self) -> Self {
        self.rule("allcommands")
    }

    /// No commands.
    pub fn no_commands(self) -> Self {
        self.rule("nocommands")
    }

    /// Only these databases. Since Valkey 9.1.
    pub fn databases(self, databases: impl IntoIterator<Item = u32>) -> Self {
        let numbers: Vec<String> = databases.into_iter().map(|n| n.to_string()).collect();
        self.with("db=", numbers.join(","))
    }

    /// All databases. Since Valkey 9.1.
    pub fn all_databases(self) -> Self {
        self.rule("alldbs")
    }

    /// No databases any more. Since Valkey 9.1.
    pub fn reset_databases(self) -> Self {
        self.rule("resetdbs")
    }

    /// A further set of rules, which is asked when the others do not allow a command; only rules for commands, keys and
    /// channels. Since 7.0.
    pub fn selector(self, rules: AclRules) -> Self {
        self.rule(format!("({})", rules.0.join(" ")))
    }

    /// Removes all selectors. Since 7.0.
    pub fn clear_selectors(self) -> Self {
        self.rule("clearselectors")
    }

    /// Whether what RESTORE takes is checked in depth. Since 6.2.
    pub fn sanitize_payload(self, check: bool) -> Self {
        self.rule(if check { "sanitize-payload" } else { "skip-sanitize-payload" })
    }

    /// Takes everything back: as a user that was just made.
    pub fn reset(self) -> Self {
        self.rule("reset")
    }
}

impl fmt::Debug for AclRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().map(|rule| match rule.as_bytes().first() {
            Some(b'>' | b'<' | b'#' | b'!') => &rule[..1],
            _ => rule,
        });
        f.debug_tuple("AclRules").field(&shown.collect::<Vec<_>>()).finish()
    }
}

impl ToArgs for AclRules {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        self.0.iter().for_each(|rule| out.arg(rule));
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        self.0.len()
    }
}

impl ToArgs for &AclRules {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        (**self).write_args(out);
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Decoder;

    #[test]
    fn passwords_are_not_shown() {
        let rules = AclRules::new().on().password("secret").password_hash("abc").remove_password("old").keys("k*");
        assert_eq!(format!("{rules:?}"), r##"AclRules(["on", ">", "#", "<", "~k*"])"##);
    }

    #[test]
    fn what_is_not_known_of_a_user_is_kept() -> Result<()> {
        let wire =
            b"*6\r\n$4\r\nkeys\r\n*2\r\n$1\r\n*\r\n$2\r\n~a\r\n$3\r\nnew\r\n:7\r\n$5\r\nflags\r\n~1\r\n$2\r\non\r\n";
        let (frame, _) = Decoder::new().decode(wire)?.expect("a whole reply");
        let user = AclUser::from_reply(frame)?;
        assert_eq!(user.keys, "~* ~a");
        assert!(user.is_on());
        assert_eq!(user.other["new"].as_i64(), Some(7));
        Ok(())
    }
}
