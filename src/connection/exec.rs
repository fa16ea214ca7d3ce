//! The replies of a transaction: MULTI, QUEUED for each command, and EXEC.

use super::config::Protocol;
use super::engine::Engine;
use super::groups::State;
use super::queue::Mark;
use crate::error::{Error, Result, ServerError};
use crate::resp::{self, Frame, ProtocolError};

impl Engine {
    /// The reply to MULTI, or to a command inside it.
    pub(super) fn settle_queued(&mut self) -> Result<bool> {
        let Some(n) = self.head_frame()? else { return Ok(false) };
        let multi = self.ring.get(self.next) == Mark::Multi;
        let (queued, error) = match resp::frame(&self.input.bytes()[..n]) {
            Some(Frame::Error(message)) => (false, Some(Error::from(ServerError::new(message)))),
            Some(Frame::SimpleString(b"QUEUED")) => (true, None),
            _ => (false, None),
        };
        let place = self.next;
        let mut in_step = true;
        if let Some(group) = self.groups.current() {
            match (multi, error) {
                (true, error) => group.multi_error = error,
                // Without MULTI the commands run one by one, and these are their replies.
                _ if group.multi_error.is_some() => {}
                (false, Some(error)) => {
                    let State::Committed { multi } = group.state else { return Ok(false) };
                    group.refused.push(((place - multi - 1) as u32, error));
                }
                (false, None) => {
                    in_step = queued;
                    group.queued += 1;
                }
            }
        }
        if !in_step {
            return Err(self.break_with(ProtocolError::OutOfStep.into()));
        }
        self.pass(n);
        Ok(true)
    }

    /// The reply to EXEC: of an array only the header, since its elements are replies of their own; else an error or nil,
    /// after which none come.
    pub(super) fn settle_exec(&mut self) -> Result<bool> {
        let header = loop {
            match self.front()? {
                None => return Ok(false),
                Some(b'|') => {
                    if !self.drop_attribute()? {
                        return Ok(false);
                    }
                }
                Some(b'*') => {
                    self.scanner.reset();
                    match resp::header(self.input.bytes()) {
                        Ok(Some(header)) => break Some(header),
                        // Nil, or not there yet; or malformed, which the look at the whole tells.
                        _ => break None,
                    }
                }
                Some(_) => break None,
            }
        };
        let elements = header.as_ref().map(|header| header.elements);
        let (n, failure) = match header {
            Some(header) => (header.len, None),
            None => {
                let Some(n) = self.head_frame()? else { return Ok(false) };
                let failure = match resp::frame(&self.input.bytes()[..n]) {
                    Some(Frame::Error(message)) => Some(Error::from(ServerError::new(message))),
                    Some(Frame::Null) => Some(Error::Aborted),
                    _ => None,
                };
                let Some(failure) = failure else { return Err(self.break_with(ProtocolError::OutOfStep.into())) };
                (n, Some(failure))
            }
        };
        let first = self.next + 1;
        let Some(group) = self.groups.current() else {
            return Err(self.break_with(ProtocolError::OutOfStep.into()));
        };
        let size = u64::from(group.size);
        let refused: Vec<(u64, Error)> =
            group.refused.iter().map(|(index, error)| (first + u64::from(*index), error.clone())).collect();
        match (elements, failure) {
            (Some(count), _) => {
                if count != u64::from(group.queued) || group.multi_error.is_some() {
                    return Err(self.break_with(ProtocolError::OutOfStep.into()));
                }
                group.state = State::Ready { first };
                for (place, error) in refused {
                    self.account_for_refusal(place, error);
                    self.ring.set(place, Mark::Void, self.next, self.issued);
                }
                self.pass(n);
            }
            (None, failure) => {
                let error = group.multi_error.take().or(failure).unwrap_or(Error::Aborted);
                let unseen = group.commit_detached;
                group.state = State::Failed(error.clone());
                for (place, error) in refused {
                    self.account_for_refusal(place, error);
                }
                if unseen {
                    self.unseen_anywhere(error);
                }
                self.pass(n);
                for _ in 0..size {
                    self.advance();
                }
            }
        }
        self.groups.resolved();
        Ok(true)
    }

    /// A command that the server refused to queue, and whose handle is gone, is the cause of what others are told.
    fn account_for_refusal(&mut self, place: u64, error: Error) {
        self.ring.cover(self.next, self.issued);
        if self.ring.get(place) == Mark::Detached {
            self.unseen(place, error);
        }
    }

    /// Drops the attribute at the front, if it is whole: what it stands before is not to be scanned with it.
    pub(super) fn drop_attribute(&mut self) -> Result<bool> {
        let bytes = self.input.bytes();
        let mut scanner = resp::Scanner::new(self.config.protocol == Protocol::Resp3);
        let mut pushes = Vec::new();
        let mut scan = || {
            let Some(header) = resp::header(bytes)? else { return Ok(None) };
            let (mut end, mut left) = (header.len, header.elements);
            while left > 0 {
                let Some(len) = scanner.scan(&bytes[end..])? else { return Ok(None) };
                let element = &bytes[end..end + len];
                pushes.extend(scanner.take_pushes().map(|range| element[range].to_vec()));
                if let Some(Frame::Push(_)) = resp::frame(element) {
                    pushes.push(element.to_vec());
                } else {
                    left -= 1;
                }
                end += len;
            }
            Ok(Some(end))
        };
        let scanned: std::result::Result<Option<usize>, ProtocolError> = scan();
        match scanned {
            Ok(Some(n)) => {
                pushes.into_iter().for_each(|push| self.keep_push(push));
                self.input.consume(n);
                self.scanner.reset();
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(self.break_with(error.into())),
        }
    }
}
