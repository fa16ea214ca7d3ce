//! The first words with a server: HELLO, AUTH, SELECT, CLIENT SETNAME, CLIENT SETINFO.
//!
//! Normally one round trip. Servers without HELLO, and proxies, get a second one in RESP2. No command of the user is
//! sent before all of it is answered: a server whose default user needs no password goes on as that user after a login
//! that failed, and says OK to all that follows.

use super::config::Protocol;
use super::deadline::Deadline;
use super::engine::Engine;
use crate::error::{Error, Result, ServerError};
use crate::resp::{self, Frame, Scanner};

/// A reply of the handshake: all that matters is whether it is an error.
type Answer = std::result::Result<(), ServerError>;

impl Engine {
    /// Agrees with the server on protocol, user, database and name, before the deadline.
    pub(super) fn handshake(&mut self, deadline: &mut Deadline) -> Result<()> {
        if self.config.protocol == Protocol::Resp2 {
            return self.handshake_resp2(deadline);
        }
        match self.hello(deadline)? {
            Hello::Done => Ok(()),
            Hello::LoginFirst => {
                self.login(deadline)?;
                match self.hello(deadline)? {
                    Hello::Done => Ok(()),
                    _ => self.handshake_resp2(deadline),
                }
            }
            Hello::Unknown => self.handshake_resp2(deadline),
        }
    }

    /// HELLO 3 and what goes with it, in one write.
    fn hello(&mut self, deadline: &mut Deadline) -> Result<Hello> {
        let mut hello: Vec<Vec<u8>> = vec!["HELLO".into(), "3".into()];
        if let Some(password) = &self.config.password {
            let user = self.config.user.clone().unwrap_or_else(|| b"default".to_vec());
            hello.extend(["AUTH".into(), user, password.clone()]);
        }
        if let Some(name) = &self.config.client_name {
            hello.extend(["SETNAME".into(), name.clone().into_bytes()]);
        }
        let mut commands = vec![hello];
        commands.extend(self.select());
        let needed = commands.len();
        commands.extend(self.info());
        self.scanner = Scanner::new(true);
        let answers = self.exchange(&commands, needed, deadline)?;
        let mut answers = answers.into_iter();
        match answers.next() {
            Some(Ok(())) => {}
            Some(Err(error)) => return self.judge(error),
            None => return Err(Error::Refused("the server did not answer HELLO")),
        }
        if self.config.database != 0
            && let Some(Err(error)) = answers.next()
        {
            return Err(error.into());
        }
        // SETINFO is a courtesy: an error means that the server is too old for it, or does not let this user.
        Ok(Hello::Done)
    }

    /// What an error reply to HELLO means.
    fn judge(&self, error: ServerError) -> Result<Hello> {
        match error.code() {
            Some("NOAUTH") if self.config.password.is_some() => Ok(Hello::LoginFirst),
            Some("NOPROTO") => Ok(Hello::Unknown),
            Some("ERR") | None if !fatal(&error) => Ok(Hello::Unknown),
            _ => Err(self.reveal(error).into()),
        }
    }

    /// What may be told of an error: a server that does not know HELLO or AUTH repeats its arguments, the password among
    /// them, so when there is one, only the code word is kept of texts that are not known to be harmless.
    fn reveal(&self, error: ServerError) -> ServerError {
        let harmless = matches!(error.code(), Some("WRONGPASS" | "NOAUTH" | "NOPERM" | "DENIED" | "LOADING" | "BUSY"));
        if harmless || fatal(&error) || self.config.password.is_none() { error } else { error.without_text() }
    }

    /// RESP2, in one write.
    fn handshake_resp2(&mut self, deadline: &mut Deadline) -> Result<()> {
        self.config.protocol = Protocol::Resp2;
        self.scanner = Scanner::new(false);
        let login = self.auth();
        let select = self.select();
        let secret = login.is_some();
        let name = self.config.client_name.clone();
        let mut commands: Vec<Vec<Vec<u8>>> = Vec::new();
        commands.extend(login);
        commands.extend(name.map(|name| vec!["CLIENT".into(), "SETNAME".into(), name.into_bytes()]));
        commands.extend(select);
        let needed = commands.len();
        commands.extend(self.info());
        let answers = self.exchange(&commands, needed, deadline)?;
        for (index, answer) in answers.into_iter().take(needed).enumerate() {
            match answer {
                Ok(()) => {}
                Err(error) if index == 0 && secret => return Err(self.reveal(error).into()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// AUTH alone, for servers that want it before HELLO.
    fn login(&mut self, deadline: &mut Deadline) -> Result<()> {
        let Some(auth) = self.auth() else { return Ok(()) };
        match self.exchange(&[auth], 1, deadline)?.pop() {
            Some(Err(error)) => Err(self.reveal(error).into()),
            _ => Ok(()),
        }
    }

    /// AUTH, with one argument if there is no user, which is all that old servers know.
    fn auth(&self) -> Option<Vec<Vec<u8>>> {
        let password = self.config.password.clone()?;
        let mut auth = vec![b"AUTH".to_vec()];
        auth.extend(self.config.user.clone());
        auth.push(password);
        Some(auth)
    }

    /// SELECT, unless it is database 0: some servers and users refuse even that.
    fn select(&self) -> Option<Vec<Vec<u8>>> {
        let database = self.config.database;
        (database != 0).then(|| vec!["SELECT".into(), database.to_string().into_bytes()])
    }

    fn info(&self) -> Vec<Vec<Vec<u8>>> {
        if !self.config.client_setinfo {
            return Vec::new();
        }
        let info = |what: &str, value: &str| vec!["CLIENT".into(), "SETINFO".into(), what.into(), value.into()];
        vec![info("LIB-NAME", env!("CARGO_PKG_NAME")), info("LIB-VER", env!("CARGO_PKG_VERSION"))]
    }

    /// One command and its reply, outside of the queue.
    pub(super) fn ask(&mut self, command: &[&str], deadline: &mut Deadline) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, command);
        self.output.append(&bytes);
        self.flush(deadline)?;
        loop {
            if let Some(n) = self.head_frame()? {
                let reply = self.input.bytes()[..n].to_vec();
                self.keep_inner_pushes();
                self.input.consume(n);
                return Ok(reply);
            }
            self.fill(deadline)?;
        }
    }

    /// Brings what an earlier connection had changed back, by the commands that did so.
    pub(super) fn restore(&mut self, commands: &[Vec<u8>], deadline: &mut Deadline) -> Result<()> {
        if commands.is_empty() {
            return Ok(());
        }
        let answers = self.exchange_encoded(&commands.concat(), commands.len(), commands.len(), deadline)?;
        answers.into_iter().try_for_each(|answer| answer.map_err(Error::from))
    }

    /// Writes the commands and reads as many replies. If the connection ends before, and one of the first `needed` replies
    /// was an error, or another one that no command has asked for, that is taken for the reason.
    fn exchange(&mut self, commands: &[Vec<Vec<u8>>], needed: usize, deadline: &mut Deadline) -> Result<Vec<Answer>> {
        let mut bytes = Vec::new();
        for command in commands {
            resp::encode_command(&mut bytes, command);
        }
        self.exchange_encoded(&bytes, commands.len(), needed, deadline)
    }

    fn exchange_encoded(
        &mut self,
        commands: &[u8],
        count: usize,
        needed: usize,
        deadline: &mut Deadline,
    ) -> Result<Vec<Answer>> {
        let mut answers = Vec::with_capacity(count);
        self.output.append(commands);
        // A server that is full says so unasked and closes: our own write may fail before its text is read.
        let written = self.flush(deadline);
        while answers.len() < count {
            match self.head_frame() {
                Ok(Some(n)) => {
                    answers.push(match resp::frame(&self.input.bytes()[..n]) {
                        Some(Frame::Error(message)) => Err(ServerError::new(message)),
                        _ => Ok(()),
                    });
                    self.keep_inner_pushes();
                    self.input.consume(n);
                }
                Ok(None) => {
                    let filled = written.clone().and_then(|()| self.fill(deadline));
                    if let Err(error) = filled {
                        // The reason, if the server gave one.
                        if let Ok(Some(n)) = self.head_frame()
                            && let Some(Frame::Error(message)) = resp::frame(&self.input.bytes()[..n])
                        {
                            answers.push(Err(ServerError::new(message)));
                        }
                        let mut errors =
                            answers.into_iter().enumerate().filter_map(|(at, answer)| Some((at, answer.err()?)));
                        let reason = errors.find(|(at, error)| *at < needed || unasked(error));
                        return match reason {
                            Some((_, reason)) if !matches!(error, Error::Timeout) => Err(self.reveal(reason).into()),
                            _ => Err(error),
                        };
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(answers)
    }
}

/// What HELLO has come to.
enum Hello {
    Done,
    /// The server wants AUTH first.
    LoginFirst,
    /// The server has no HELLO, or not this version of the protocol.
    Unknown,
}

/// Whether an error is one that servers send of their own accord before they close.
fn unasked(error: &ServerError) -> bool {
    error.code() == Some("DENIED") || memchr::memmem::find(error.message(), b"max number of clients").is_some()
}

/// Whether an `ERR` to HELLO is about something else than HELLO itself, so that RESP2 would fare no better.
fn fatal(error: &ServerError) -> bool {
    unasked(error) || memchr::memmem::find(error.message(), b"Client names cannot contain").is_some()
}
