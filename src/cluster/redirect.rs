//! Errors by which a node says that a command did not run, and should be tried elsewhere or later.

use std::fmt;

use crate::error::ServerError;

/// What an error reply asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot belongs to this node.
    Moved(Address),
    /// This key is with that node, if it is anywhere: to be asked with ASKING in front.
    Ask(Address),
    /// Not now: some keys are here and some elsewhere, or nobody serves the slot, or the node is loading its data.
    Later,
    /// This node is a replica by now.
    Demoted,
}

/// Where a node is reached. An empty host is that of the node that named it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Redirect {
    /// What this error asks for, if it asks a command of this slot for anything.
    pub(super) fn of(message: &[u8], slot: Option<u16>) -> Option<Redirect> {
        let mut words = message.split(|byte| *byte == b' ');
        match words.next()? {
            code @ (b"MOVED" | b"ASK") => {
                let named: u16 = str::from_utf8(words.next()?).ok()?.parse().ok()?;
                if slot.is_some_and(|slot| slot != named) {
                    // Of no key that was sent.
                    return None;
                }
                let address = Address::of(str::from_utf8(words.next()?).ok()?)?;
                Some(if code == b"MOVED" { Redirect::Moved(address) } else { Redirect::Ask(address) })
            }
            b"TRYAGAIN" | b"CLUSTERDOWN" | b"LOADING" | b"MASTERDOWN" => Some(Redirect::Later),
            b"READONLY" => Some(Redirect::Demoted),
            _ => None,
        }
    }

    /// Whether an error that asks for another try is in the words of the servers.
    pub(super) fn is_servers_own(error: &ServerError) -> bool {
        let words: [&[u8]; 4] =
            [b"TRYAGAIN Multiple keys ", b"CLUSTERDOWN The cluster ", b"CLUSTERDOWN Hash slot ", b"MASTERDOWN Link "];
        let message = error.message();
        // Its first words are the server's name.
        let loads =
            message.starts_with(b"LOADING ") && memchr::memmem::find(message, b" is loading the dataset").is_some();
        loads || words.iter().any(|words| message.starts_with(words))
    }

    pub(super) fn of_error(error: &ServerError, slot: Option<u16>) -> Option<Redirect> {
        Redirect::of(error.message(), slot)
    }
}

impl Address {
    /// `host:port`, where the host may be empty or `?`, and an IPv6 address with or without brackets.
    fn of(text: &str) -> Option<Address> {
        let (host, port) = text.rsplit_once(':')?;
        Address::new(host, port.parse().ok()?)
    }

    pub(super) fn new(host: &str, port: u16) -> Option<Address> {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = if host == "?" { "" } else { host };
        (port != 0).then(|| Address { host: host.to_owned(), port })
    }

    /// With the host of whoever named it, if it has none of its own.
    pub(super) fn or_host_of(mut self, named_by: &Address) -> Address {
        if self.host.is_empty() {
            self.host.clone_from(&named_by.host);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn redirects_are_read_and_nonsense_is_not() {
        let of = |text: &str| Redirect::of(text.as_bytes(), Some(3999));
        assert_eq!(of("MOVED 3999 127.0.0.1:6381"), Some(Redirect::Moved(address("127.0.0.1", 6381))));
        assert_eq!(of("ASK 3999 host.name:6381"), Some(Redirect::Ask(address("host.name", 6381))));
        assert_eq!(of("MOVED 3999 :6381"), Some(Redirect::Moved(address("", 6381))));
        assert_eq!(of("MOVED 3999 ?:6381"), Some(Redirect::Moved(address("", 6381))));
        assert_eq!(of("MOVED 3999 ::1:6381"), Some(Redirect::Moved(address("::1", 6381))));
        assert_eq!(of("MOVED 3999 [::1]:6381 more"), Some(Redirect::Moved(address("::1", 6381))));
        assert_eq!(of("TRYAGAIN Multiple keys"), Some(Redirect::Later));
        assert_eq!(of("CLUSTERDOWN Hash slot not served"), Some(Redirect::Later));
        assert_eq!(of("READONLY You can't write"), Some(Redirect::Demoted));
        for text in [
            "MOVED",
            "MOVED 3999",
            "MOVED 3998 127.0.0.1:1",
            "MOVED 99999 127.0.0.1:1",
            "MOVED 3999 127.0.0.1",
            "MOVED 3999 127.0.0.1:0",
            "MOVED 3999 127.0.0.1:66000",
            "MOVED x 127.0.0.1:1",
            "ASK 3999 \u{fffd}",
            "ERR MOVED 3999 127.0.0.1:1",
            "MOVEDX 3999 127.0.0.1:1",
            "",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(Redirect::of(b"MOVED 3999 \xff:1", Some(3999)), None);
    }
}
