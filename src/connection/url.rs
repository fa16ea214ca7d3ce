//! URLs of servers: `redis://user:password@host:port/database?key=value` and their like for unix sockets.
//!
//! What is understood is said at [`Config::from_url`]. No error repeats a piece of the URL, since any piece may be a
//! password whose escapes were forgotten (`redis://:pass/word@host`). Only the unknown key of a query is named, and that
//! only where no `@` can have made it a part of a password.

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::config::{Config, Endpoint, Protocol, invalid};
#[cfg(feature = "tls")]
use super::tls_config::TlsConfig;
use crate::error::Result;

const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 6379;

/// Everything but the [`Config::validate`] that must follow.
pub(super) fn parse(url: &str) -> Result<Config> {
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(invalid("a space or a control character in the URL: it must be percent-encoded"));
    }
    if url.contains('#') {
        return Err(invalid("a `#` in the URL: it must be written `%23`, and a fragment has no meaning here"));
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(invalid(
            "the URL must begin with `redis://`, as `redis://localhost:6379` does, or `redis+unix://` or the like",
        ));
    };
    let (unix, tls) = match scheme.to_ascii_lowercase().as_str() {
        "redis" | "valkey" => (false, false),
        "rediss" | "valkeys" => (false, true),
        "redis+unix" | "valkey+unix" | "unix" => (true, false),
        other if other.contains("sentinel") => {
            return Err(invalid(
                "sentinels have URLs as servers do (`redis://host:26379`): give them to `Sentinel::new`, with the name of the \
                 primary",
            ));
        }
        other if other.contains("cluster") => {
            return Err(invalid(
                "the nodes of a cluster have URLs as other servers do (`redis://host:7000`): give them to `Cluster::open`",
            ));
        }
        _ => {
            return Err(invalid(
                "the scheme of the URL must be `redis`, `rediss`, `valkey`, `valkeys`, `redis+unix`, `valkey+unix` or \
                 `unix`",
            ));
        }
    };
    if tls && cfg!(not(feature = "tls")) {
        return Err(invalid("a URL for TLS (`rediss://`, `valkeys://`) needs the feature `tls` of this crate"));
    }

    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if !authority.is_empty() && (path.contains('@') || query.contains('@')) {
        return Err(invalid(
            "an `@` behind the host: in a password `/` must be written `%2F` and `?` `%3F`, elsewhere `@` must be `%40`",
        ));
    }
    let (userinfo, host) = authority.rsplit_once('@').unwrap_or(("", authority));

    let mut given = Given::default();
    // Nothing before or after the colon is nobody, and not an empty password.
    if !matches!(userinfo, "" | ":") {
        let (user, password) = userinfo.split_once(':').map_or((userinfo, None), |(user, rest)| (user, Some(rest)));
        given.user = Some(decode(user)?).filter(|user| !user.is_empty());
        given.password = password.map(decode).transpose()?;
    }

    let endpoint = if unix {
        if !host.is_empty() {
            return Err(invalid("a unix socket has no host: its URL has three slashes, `redis+unix:///path/to.sock`"));
        }
        Endpoint::Unix(decode_path(path)?)
    } else {
        if let Some(database) = path.strip_prefix('/').filter(|path| !path.is_empty()) {
            given.database = Some(number(database, "the database")?);
        }
        parse_host_and_port(host)?
    };

    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "db" | "database" => set(&mut given.database, number(value, "the database")?, "the database")?,
            "client_name" | "name" => {
                set(&mut given.client_name, decode_text(value, "the client name")?, "the client name")?;
            }
            "client_setinfo" => set(&mut given.client_setinfo, parse_bool(value)?, "`client_setinfo`")?,
            "protocol" => set(&mut given.protocol, parse_protocol(value)?, "the protocol")?,
            "connect_timeout" => set(&mut given.connect_timeout, parse_duration(value)?, "the connect timeout")?,
            "timeout" => set(&mut given.timeout, parse_duration(value)?, "the timeout")?,
            "user" if unix => set(&mut given.user, decode(value)?, "the user")?,
            "password" | "pass" if unix => set(&mut given.password, decode(value)?, "the password")?,
            "user" | "password" | "pass" => {
                return Err(invalid("user and password of a TCP connection are written before the host"));
            }
            _ if is_plain(key) && !query.contains('@') => {
                return Err(invalid(format!("unknown key `{key}` in the URL")));
            }
            _ => return Err(invalid("an unknown key in the URL")),
        }
    }
    let config = given.apply(Config::new(endpoint));
    #[cfg(feature = "tls")]
    let config = if tls { config.tls(TlsConfig::new()) } else { config };
    Ok(config)
}

/// What the URL says. The rest keeps its default.
#[derive(Default)]
struct Given {
    user: Option<Vec<u8>>,
    password: Option<Vec<u8>>,
    database: Option<u32>,
    client_name: Option<String>,
    client_setinfo: Option<bool>,
    protocol: Option<Protocol>,
    connect_timeout: Option<Duration>,
    timeout: Option<Duration>,
}

impl Given {
    /// By way of the builder methods, for their bounds.
    fn apply(self, mut config: Config) -> Config {
        if let Some(user) = self.user {
            config = config.user(user);
        }
        if let Some(password) = self.password {
            config = config.password(password);
        }
        if let Some(database) = self.database {
            config = config.database(database);
        }
        if let Some(name) = self.client_name {
            config = config.client_name(name);
        }
        if let Some(tell) = self.client_setinfo {
            config = config.client_setinfo(tell);
        }
        if let Some(protocol) = self.protocol {
            config = config.protocol(protocol);
        }
        if let Some(timeout) = self.connect_timeout {
            config = config.connect_timeout(timeout);
        }
        if let Some(timeout) = self.timeout {
            config = config.timeout(timeout);
        }
        config
    }
}

fn set<T: PartialEq>(slot: &mut Option<T>, value: T, what: &str) -> Result<()> {
    if slot.as_ref().is_some_and(|before| *before != value) {
        return Err(invalid(format!("{what} is given twice in the URL, with different values")));
    }
    *slot = Some(value);
    Ok(())
}

fn parse_host_and_port(text: &str) -> Result<Endpoint> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else {
            return Err(invalid("a `[` without its `]` in the host of the URL"));
        };
        (parse_ipv6(address)?, port)
    } else {
        let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
        if host.contains(['[', ']']) || port[port.len().min(1)..].contains(':') {
            return Err(invalid("the host of the URL is malformed: an IPv6 address is written in brackets, `[::1]`"));
        }
        (if host.is_empty() { DEFAULT_HOST.to_owned() } else { decode_text(host, "the host")? }, port)
    };
    let port = match port.strip_prefix(':') {
        Some(port) => number(port, "the port")?,
        None if port.is_empty() => DEFAULT_PORT,
        None => return Err(invalid("only a port may follow the `]` of the host in the URL")),
    };
    Ok(Endpoint::Tcp { host, port })
}

/// `::1`, `fe80::1%25eth0` as RFC 6874 has it, or `fe80::1%eth0` as people write it.
fn parse_ipv6(text: &str) -> Result<String> {
    let malformed = || invalid("what stands in brackets in the URL is not an IPv6 address");
    let (address, zone) = match text.split_once('%') {
        None => (text, None),
        // A lone `%25` is the twenty-fifth interface.
        Some((address, zone)) => match zone.strip_prefix("25").filter(|zone| !zone.is_empty()) {
            Some(zone) => (address, Some(decode_text(zone, "the zone")?)),
            None => (address, Some(zone.to_owned())),
        },
    };
    if address.parse::<Ipv6Addr>().is_err() {
        return Err(malformed());
    }
    match zone {
        None => Ok(address.to_owned()),
        Some(zone) if is_plain(&zone) => Ok(format!("{address}%{zone}")),
        Some(_) => Err(malformed()),
    }
}

/// Not empty, and nothing but letters, digits and what may join them.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~'))
}

fn parse_bool(text: &str) -> Result<bool> {
    text.parse().map_err(|_| invalid("`client_setinfo` in the URL must be `true` or `false`"))
}

fn parse_protocol(text: &str) -> Result<Protocol> {
    match text {
        "2" | "resp2" => Ok(Protocol::Resp2),
        "3" | "resp3" => Ok(Protocol::Resp3),
        _ => Err(invalid("the protocol in the URL must be `2`, `3`, `resp2` or `resp3`")),
    }
}

fn parse_duration(text: &str) -> Result<Duration> {
    if let Some(millis) = text.strip_suffix("ms") {
        Ok(Duration::from_millis(number(millis, "a timeout")?))
    } else if let Some(seconds) = text.strip_suffix('s') {
        Ok(Duration::from_secs(number(seconds, "a timeout")?))
    } else {
        Err(invalid("a timeout in the URL needs a unit: `500ms` or `5s`"))
    }
}

/// Digits and nothing else: `parse` alone would take a `+`.
fn number<T: FromStr>(text: &str, what: &str) -> Result<T> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().map_err(|_| invalid(format!("{what} in the URL is too large")))
    } else {
        Err(invalid(format!("{what} in the URL is not a number")))
    }
}

/// Percent-decodes once, and refuses a `%` that is no escape, since the next reader might see one.
fn decode(text: &str) -> Result<Vec<u8>> {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if text.split('%').skip(1).all(is_escape) {
        Ok(percent_decode_str(text).collect())
    } else {
        Err(invalid("a `%` without two hexadecimal digits in the URL: it must be written `%25`"))
    }
}

fn decode_text(text: &str, what: &str) -> Result<String> {
    String::from_utf8(decode(text)?).map_err(|_| invalid(format!("{what} in the URL is not UTF-8")))
}

#[cfg(unix)]
fn decode_path(text: &str) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    Ok(std::ffi::OsString::from_vec(decode(text)?).into())
}

#[cfg(not(unix))]
fn decode_path(text: &str) -> Result<PathBuf> {
    Ok(decode_text(text, "the path")?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> Config {
        Config::from_url(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    fn refusal(url: &str) -> String {
        match Config::from_url(url) {
            Ok(config) => panic!("{url} was taken as {config:?}"),
            Err(error) => error.to_string(),
        }
    }

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.into(), port }
    }

    #[test]
    fn a_table_of_addresses() {
        let table = [
            ("redis://example", tcp("example", 6379), 0),
            ("redis://example/", tcp("example", 6379), 0),
            ("redis://example?", tcp("example", 6379), 0),
            ("REDIS://Example", tcp("Example", 6379), 0),
            ("valkey://example:7000", tcp("example", 7000), 0),
            ("redis://example:65535/15", tcp("example", 65535), 15),
            ("redis://10.0.0.1:1", tcp("10.0.0.1", 1), 0),
            ("redis://under_score.local.", tcp("under_score.local.", 6379), 0),
            ("redis://b%C3%BCcher", tcp("bücher", 6379), 0),
            ("redis://", tcp("127.0.0.1", 6379), 0),
            ("redis:///1", tcp("127.0.0.1", 6379), 1),
            ("redis://:7000/1", tcp("127.0.0.1", 7000), 1),
            ("redis://:secret@", tcp("127.0.0.1", 6379), 0),
            ("redis://example?db=3", tcp("example", 6379), 3),
            ("redis://example/?database=3&", tcp("example", 6379), 3),
            ("redis://example/3?db=3&database=3", tcp("example", 6379), 3),
            ("redis://[::1]", tcp("::1", 6379), 0),
            ("redis://[::1]:7000/2", tcp("::1", 7000), 2),
            ("redis://:secret@[2001:db8::1]:7000", tcp("2001:db8::1", 7000), 0),
            ("redis://[::ffff:10.0.0.1]", tcp("::ffff:10.0.0.1", 6379), 0),
            ("redis://[fe80::1%25eth0]:7000", tcp("fe80::1%eth0", 7000), 0),
            ("redis://[fe80::1%eth0]", tcp("fe80::1%eth0", 6379), 0),
            ("redis://[fe80::1%ab0]", tcp("fe80::1%ab0", 6379), 0),
            ("redis://[fe80::1%25br%2D1]", tcp("fe80::1%br-1", 6379), 0),
            ("redis://[fe80::1%252]", tcp("fe80::1%2", 6379), 0),
            ("redis://[fe80::1%25]", tcp("fe80::1%25", 6379), 0),
        ];
        for (url, endpoint, database) in table {
            let config = config(url);
            assert_eq!((config.endpoint, config.database), (endpoint, database), "{url}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_table_of_unix_sockets() {
        let table: [(_, _, _, Option<&str>, Option<&str>); 9] = [
            ("redis+unix:///run/redis.sock", "/run/redis.sock", 0, None, None),
            ("valkey+unix:///run/redis.sock?db=1", "/run/redis.sock", 1, None, None),
            ("unix:///run/my%20redis%3F.sock", "/run/my redis?.sock", 0, None, None),
            ("unix:///run/redis@1.sock", "/run/redis@1.sock", 0, None, None),
            ("unix://:pass@/run/redis.sock?database=2", "/run/redis.sock", 2, None, Some("pass")),
            ("unix://user:p%2Fss@/run/redis.sock", "/run/redis.sock", 0, Some("user"), Some("p/ss")),
            ("unix://:p@/run/redis.sock?user=u", "/run/redis.sock", 0, Some("u"), Some("p")),
            ("unix:///run/redis.sock?user=u&pass=p%26q", "/run/redis.sock", 0, Some("u"), Some("p&q")),
            ("unix:///run/redis.sock?password=p@q", "/run/redis.sock", 0, None, Some("p@q")),
        ];
        for (url, path, database, user, password) in table {
            let config = config(url);
            assert_eq!(config.endpoint, Endpoint::Unix(path.into()), "{url}");
            assert_eq!(config.database, database, "{url}");
            assert_eq!(config.user.as_deref(), user.map(str::as_bytes), "{url}");
            assert_eq!(config.password.as_deref(), password.map(str::as_bytes), "{url}");
        }
    }

    #[test]
    fn a_table_of_users_and_passwords() {
        type Bytes = Option<&'static [u8]>;
        let table: [(&str, Bytes, Bytes); 13] = [
            ("redis://host", None, None),
            ("redis://@host", None, None),
            ("redis://:@host", None, None),
            ("redis://:pass@host", None, Some(b"pass")),
            ("redis://user:pass@host", Some(b"user"), Some(b"pass")),
            ("redis://user:@host", Some(b"user"), Some(b"")),
            ("redis://user:%40%3A%2F%3F%23%25@host", Some(b"user"), Some(b"@:/?#%")),
            ("redis://us%3Aer:pass@host", Some(b"us:er"), Some(b"pass")),
            ("redis://user:p@ss@host", Some(b"user"), Some(b"p@ss")),
            ("redis://user:p:a@s:s@host", Some(b"user"), Some(b"p:a@s:s")),
            ("redis://:%2541@host", None, Some(b"%41")),
            ("redis://:p%C3%A4ss%FFw\u{f6}rd%00%20@host", None, Some(b"p\xc3\xa4ss\xffw\xc3\xb6rd\0 ")),
            ("redis://:a+b@host", None, Some(b"a+b")),
        ];
        for (url, user, password) in table {
            let config = config(url);
            assert_eq!(config.endpoint, tcp("host", 6379), "{url}");
            assert_eq!((config.user.as_deref(), config.password.as_deref()), (user, password), "{url}");
        }
    }

    #[test]
    fn the_query_sets_what_the_builder_sets() {
        let config = config("redis://h?protocol=2&client_name=my%2Dapp+1&connect_timeout=500ms&timeout=7s");
        assert_eq!(config.protocol, Protocol::Resp2);
        assert_eq!(config.client_name.as_deref(), Some("my-app+1"));
        assert_eq!(config.connect_timeout, Duration::from_millis(500));
        assert_eq!(config.timeout, Some(Duration::from_secs(7)));
        for (text, protocol) in [("resp2", Protocol::Resp2), ("3", Protocol::Resp3), ("resp3", Protocol::Resp3)] {
            assert_eq!(self::config(&format!("redis://h?protocol={text}")).protocol, protocol);
        }
        assert_eq!(self::config("redis://h?name=x").client_name.as_deref(), Some("x"));
        // The bounds of the builder methods hold here too.
        assert_eq!(self::config("redis://h?timeout=0s").timeout, Some(Duration::from_millis(1)));
        assert!(self::config("redis://h?timeout=18446744073709551615s").timeout < Some(Duration::MAX));
    }

    #[test]
    fn a_table_of_refusals() {
        let table = [
            ("", "must begin with"),
            ("localhost:6379", "must begin with"),
            ("redis:", "must begin with"),
            ("unix:/run/redis.sock", "must begin with"),
            ("http://host", "the scheme"),
            ("://host", "the scheme"),
            ("rediss+unix:///run/redis.sock", "the scheme"),
            ("redis+sentinel://host:26379/mymaster", "`Sentinel::new`"),
            ("Redis-Sentinel://host", "`Sentinel::new`"),
            ("redis+cluster://host:7000", "`Cluster::open`"),
            ("redis://host#", "fragment"),
            ("redis://ho st", "space"),
            ("redis://host\r\n", "control"),
            ("redis://host/\0", "control"),
            ("redis://host%00", "control"),
            ("redis://host%20", "space"),
            ("redis://%FF", "not UTF-8"),
            ("redis://host:", "the port in the URL is not a number"),
            ("redis://host:0", "port"),
            ("redis://host:65536", "too large"),
            ("redis://host:+1", "not a number"),
            ("redis://host:-1", "not a number"),
            ("redis://host:6379x", "not a number"),
            ("redis://host:\u{0661}", "not a number"),
            ("redis://::1", "brackets"),
            ("redis://::1:6379", "brackets"),
            ("redis://ho[st", "brackets"),
            ("redis://[::1", "without its"),
            ("redis://[::1]6379", "only a port"),
            ("redis://[::1]:", "not a number"),
            ("redis://[]", "not an IPv6"),
            ("redis://[10.0.0.1]", "not an IPv6"),
            ("redis://[v1.x]", "not an IPv6"),
            ("redis://[fe80::1%]", "not an IPv6"),
            ("redis://[fe80::1%25a%2Fb]", "not an IPv6"),
            ("redis://[fe80::1%e%th0]", "not an IPv6"),
            ("redis://host/x", "the database in the URL is not a number"),
            ("redis://host/-1", "not a number"),
            ("redis://host/+1", "not a number"),
            ("redis://host/1/", "not a number"),
            ("redis://host/4294967296", "too large"),
            ("redis://host?db=", "not a number"),
            ("redis://host?db", "not a number"),
            ("redis://host?db=x", "not a number"),
            ("redis://host/1?db=2", "the database is given twice"),
            ("redis://host?db=1&database=2", "the database is given twice"),
            ("redis://host?timeout=1s&timeout=2s", "the timeout is given twice"),
            ("redis://host?timeout=5", "needs a unit"),
            ("redis://host?timeout=", "needs a unit"),
            ("redis://host?timeout=s", "not a number"),
            ("redis://host?timeout=1.5s", "not a number"),
            ("redis://host?connect_timeout=-1s", "not a number"),
            ("redis://host?timeout=99999999999999999999s", "too large"),
            ("redis://host?protocol=4", "resp3"),
            ("redis://host?client_setinfo=0", "`true` or `false`"),
            ("redis://host?client_setinfo=true&client_setinfo=false", "given twice"),
            ("redis://host?client_name=%FF", "not UTF-8"),
            ("redis://host?colour=blue", "unknown key `colour`"),
            ("redis://host?=x", "an unknown key"),
            ("redis://host?password=x", "before the host"),
            ("redis://user@host", "needs a password"),
            ("redis://:100%@host", "%25"),
            ("redis://:%zz@host", "%25"),
            ("redis://:%4@host", "%25"),
            ("redis://:%\u{e9}@host", "%25"),
            ("unix://", "empty"),
            ("unix://host/run/redis.sock", "has no host"),
            ("unix://redis.sock", "has no host"),
            ("unix:///run/redis%00.sock", "NUL"),
            ("unix://u:p@/run/redis.sock?user=other", "the user is given twice"),
            ("unix:///run/redis.sock?user=u", "needs a password"),
        ];
        for (url, expected) in table {
            if cfg!(not(unix)) && url.starts_with("unix:") {
                continue;
            }
            let refusal = refusal(url);
            assert!(refusal.contains(expected), "{url:?}: {refusal}");
        }
    }

    #[test]
    fn a_unix_path_too_long_for_the_platform_is_refused() {
        refusal(&format!("unix:///{}", "x".repeat(200)));
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_url_for_tls_says_which_feature_it_needs() {
        for url in ["rediss://host", "valkeys://host", "REDISS://:secret@host:7000/3?db=x"] {
            assert!(refusal(url).contains("the feature `tls`"), "{url}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn the_scheme_turns_tls_on() {
        for (url, tls) in [
            ("redis://host", false),
            ("valkey://host", false),
            ("rediss://host", true),
            ("valkeys://host", true),
            ("Rediss://:secret@host:6379/3?timeout=5s", true),
        ] {
            let config = config(url);
            assert_eq!(config.endpoint, tcp("host", 6379), "{url}");
            assert_eq!(config.tls.is_some(), tls, "{url}");
        }
        assert!(refusal("rediss://a..b").contains("the server's name"));
        assert!(refusal("rediss://b%C3%BCcher").contains("the server's name"));
    }

    /// Passwords with forgotten escapes included.
    #[test]
    fn neither_errors_nor_debug_show_a_password() {
        const SECRET: &str = "s3cr3t";
        let pieces =
            ["", "@", ":", "/", "?", "#", "%", "[", "]", "@h", "12", "?db=", "?x=", "&", "/1", "@/", "\u{e9}", " "];
        for scheme in ["redis", "valkey", "unix", "rediss", "what"] {
            for before in pieces {
                for middle in pieces {
                    for after in pieces {
                        for url in [
                            format!("{scheme}://:{before}{middle}{SECRET}{after}@host"),
                            format!("{scheme}://user:{SECRET}{before}{middle}{after}"),
                        ] {
                            let text = format!("{:?}", Config::from_url(&url));
                            assert!(!text.contains(SECRET), "{url}: {text}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        let seeds = [
            "redis://user:p%40ss@[fe80::1%25eth0]:7000/3?db=3&timeout=500ms&protocol=resp2",
            "unix://:p\u{e4}ss@/run/redis.sock?user=u&pass=p&client_name=n&connect_timeout=5s",
        ];
        for seed in seeds {
            let ends: Vec<usize> = seed.char_indices().map(|(at, _)| at).chain([seed.len()]).collect();
            for (i, &from) in ends.iter().enumerate() {
                for &to in &ends[i..] {
                    // The piece alone, the rest without it, and something else in its place.
                    for with in ["", "%", "[", "\u{20ac}", "://"] {
                        let _ = Config::from_url(&format!("{}{with}{}", &seed[..from], &seed[to..]));
                    }
                    let _ = Config::from_url(&seed[from..to]);
                    let _ = Config::from_url(&format!("redis://{}", &seed[from..to]));
                }
            }
        }
    }
}
