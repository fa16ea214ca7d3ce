//! Values by number, whose numbers are used again.

/// Values that handles point to by their numbers.
pub(super) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Keeps a value, and returns its number.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.values[id as usize] = Some(value);
                id
            }
            None => {
                self.values.push(Some(value));
                (self.values.len() - 1) as u32
            }
        }
    }

    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.values.get(id as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.values.get_mut(id as usize)?.as_mut()
    }

    /// Takes a value out; its number is free from then on.
    pub(super) fn take(&mut self, id: u32) -> Option<T> {
        let value = self.values.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_when_their_value_was_taken() {
        let mut slab = Slab::default();
        let ids: Vec<u32> = (0..3).map(|n| slab.insert(n)).collect();
        assert_eq!(ids, [0, 1, 2]);
        assert_eq!((slab.take(1), slab.take(1), slab.take(7)), (Some(1), None, None));
        assert_eq!((slab.insert(9), slab.insert(10)), (1, 3));
        assert_eq!((slab.get_mut(1).copied(), slab.get_mut(4)), (Some(9), None));
        assert_eq!((slab.get(3).copied(), slab.get(4)), (Some(10), None));
    }
}
