//! Knows when the arguments of a call are whole, from fragments of their JSON.

/// How deep the fragments so far are in an object.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arguments {
    depth: u64,
    in_text: bool,
    escaped: bool,
    whole: bool,
}

impl Arguments {
    /// Takes the next fragment.
    pub(super) fn take(&mut self, fragment: &str) {
        for byte in fragment.bytes() {
            if self.escaped {
                self.escaped = false;
            } else if self.in_text {
                match byte {
                    b'\\' => self.escaped = true,
                    b'"' => self.in_text = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.in_text = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        self.whole |= self.depth == 0;
                    }
                    _ => {}
                }
            }
        }
    }

    /// True once the object is closed.
    pub(super) fn are_whole(self) -> bool {
        self.whole
    }
}
