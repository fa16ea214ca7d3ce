//! Bytes between the sockets of all nodes and the books, as far as they go at once.

use super::books::Books;

/// How many reads in a row are made from one node.
const READS: usize = 16;

impl Books {
    /// Takes in what has come from a node, and puts every reply that is whole where it belongs.
    pub(super) fn take_in(&mut self, n: u16) {
        let mut any = false;
        for _ in 0..READS {
            let Some(node) = self.core.nodes.get_mut(usize::from(n)) else { break };
            let Some(conn) = &mut node.conn else { break };
            let came = conn.read_now();
            if came {
                (node.quiet_since, node.doubted) = (None, false);
            }
            any |= self.core.settle_at_hand(n);
            let Some(conn) = &mut self.core.nodes[usize::from(n)].conn else { break };
            if conn.is_lost() {
                self.core.bury(n);
                any = true;
                break;
            }
            if !came || !conn.may_have_more() {
                break;
            }
        }
        if any {
            self.event();
        }
    }

    /// The same for what a wait for the sockets would not tell: what has been read and not settled, and what TLS keeps.
    pub(super) fn take_in_unseen(&mut self) {
        for n in 0..self.core.nodes.len() as u16 {
            let Some(conn) = &mut self.core.nodes[usize::from(n)].conn else { continue };
            if !conn.is_plain() || conn.is_lost() {
                self.take_in(n);
            } else if self.core.settle_at_hand(n) {
                self.event();
            }
        }
    }

    /// Writes what the sockets take, and sends what may be sent.
    pub(super) fn push_out(&mut self) {
        self.write();
        if self.settle_books() {
            self.write();
        }
    }

    pub(super) fn write(&mut self) {
        for n in 0..self.core.nodes.len() as u16 {
            let Some(conn) = &mut self.core.nodes[usize::from(n)].conn else { continue };
            let all = conn.push_out();
            if conn.is_lost() {
                self.core.bury(n);
                self.event();
            } else if !all && self.watch.as_ref().is_some_and(|watch| !watch.writing.contains(&n)) {
                self.waker.wake();
            }
        }
    }

    /// Writes and reads what can be at once.
    pub(super) fn poll(&mut self) {
        self.push_out();
        for n in 0..self.core.nodes.len() as u16 {
            if !self.core.nodes[usize::from(n)].entries.is_empty() {
                self.take_in(n);
            }
        }
        self.push_out();
    }
}
