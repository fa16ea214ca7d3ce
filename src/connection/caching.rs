//! Where a cache of replies hangs in the engine: see `crate::cache`. Without the feature there is none, and nothing here
//! costs anything.

#[cfg(feature = "cache")]
pub(super) use on::Caching;

#[cfg(not(feature = "cache"))]
pub(super) use off::Caching;

#[cfg(feature = "cache")]
mod on {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use crate::connection::entries::Entries;

    /// The cache of a connection, if it has one.
    #[derive(Debug, Default)]
    pub(in crate::connection) struct Caching {
        pub(in crate::connection) entries: Option<Box<Entries>>,
        /// Replies that were found, for their handles.
        answers: BTreeMap<u64, Arc<[u8]>>,
        answered: u64,
    }

    impl Caching {
        pub(in crate::connection) fn is_on(&self) -> bool {
            self.entries.is_some()
        }

        /// There is no cache any more, and nobody holds a handle.
        pub(in crate::connection) fn end(&mut self) {
            self.entries = None;
            self.answers.clear();
        }

        /// Whether any reply that is to come is to be kept.
        #[inline(always)]
        pub(in crate::connection) fn is_expecting(&self) -> bool {
            self.entries.as_ref().is_some_and(|entries| entries.is_expecting())
        }

        fn wants(&self, place: u64) -> bool {
            self.entries.as_ref().is_some_and(|entries| entries.wants(place))
        }

        /// Whether the reply of this place, the next one, is to be kept, and so is to be looked at as a whole; of which this
        /// much is here. One that has become too large is not kept.
        pub(in crate::connection) fn wants_whole(&mut self, place: u64, arrived: usize) -> bool {
            if self.entries.as_ref().is_some_and(|entries| entries.is_too_large(arrived)) {
                self.passed(place);
            }
            self.wants(place)
        }

        /// The reply of this place, the next one, has arrived whole.
        #[inline(always)]
        pub(in crate::connection) fn arrived(&mut self, place: u64, frame: &[u8]) {
            if let Some(entries) = &mut self.entries {
                entries.arrived(place, frame);
            }
        }

        /// The reply of this place, the next one, has come and gone piece by piece.
        pub(in crate::connection) fn passed(&mut self, place: u64) {
            if let Some(entries) = &mut self.entries {
                entries.passed(place);
            }
        }

        /// There is a connection again, with pushes or without.
        pub(in crate::connection) fn connected(&mut self, pushes: bool) {
            if let Some(entries) = &mut self.entries {
                entries.hear(pushes);
            }
        }

        /// Takes a push if it is an invalidation.
        pub(in crate::connection) fn push(&mut self, push: &[u8], issued: u64) -> bool {
            self.entries.as_mut().is_some_and(|entries| entries.push(push, issued))
        }

        /// A command that will have this place may change anything.
        pub(in crate::connection) fn forget_all(&mut self, place: u64) {
            if let Some(entries) = &mut self.entries {
                entries.forget_all(place);
            }
        }

        /// The connection is lost.
        pub(in crate::connection) fn lost(&mut self, issued: u64) {
            if let Some(entries) = &mut self.entries {
                entries.lost(issued);
            }
        }

        /// Keeps a reply that was found for its handle.
        pub(in crate::connection) fn answer(&mut self, reply: Arc<[u8]>) -> u64 {
            let number = self.answered;
            self.answered += 1;
            self.answers.insert(number, reply);
            crate::connection::place::answered(number)
        }

        /// Takes a reply that was found.
        pub(in crate::connection) fn take_answer(&mut self, number: u64) -> Option<Arc<[u8]>> {
            self.answers.remove(&number)
        }
    }
}

#[cfg(not(feature = "cache"))]
mod off {
    use std::sync::Arc;

    #[derive(Debug, Default)]
    pub(in crate::connection) struct Caching {}

    impl Caching {
        pub(in crate::connection) fn is_on(&self) -> bool {
            false
        }
        #[inline(always)]
        pub(in crate::connection) fn is_expecting(&self) -> bool {
            false
        }
        pub(in crate::connection) fn wants_whole(&mut self, _: u64, _: usize) -> bool {
            false
        }
        #[inline(always)]
        pub(in crate::connection) fn arrived(&mut self, _: u64, _: &[u8]) {}
        pub(in crate::connection) fn passed(&mut self, _: u64) {}
        pub(in crate::connection) fn connected(&mut self, _: bool) {}
        pub(in crate::connection) fn push(&mut self, _: &[u8], _: u64) -> bool {
            false
        }
        pub(in crate::connection) fn forget_all(&mut self, _: u64) {}
        pub(in crate::connection) fn lost(&mut self, _: u64) {}
        pub(in crate::connection) fn take_answer(&mut self, _: u64) -> Option<Arc<[u8]>> {
            None
        }
    }
}
