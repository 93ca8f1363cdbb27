//! Ids for calls that have none: the same for the same call, so that a history reads alike wherever and whenever it is read.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The longest id that every dialect takes.
const MAX: usize = 40;

/// An id made of what a call is made of.
pub(super) fn minted(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut id = String::from("call_");
    for byte in &hash.finalize()[..12] {
        // Writing to a text cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    id
}

/// The upstream's or caller's own id where every dialect takes it, else a minted one.
pub(in crate::dialect) fn own_or_minted(id: Option<&str>, parts: &[&[u8]]) -> String {
    let fits = |id: &&str| {
        !id.is_empty() && id.len() <= MAX && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    match id.filter(fits) {
        Some(id) => id.to_owned(),
        None => match id {
            Some(id) if !id.is_empty() => minted(&[id.as_bytes()]),
            _ => minted(parts),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_depends_on_every_part_and_on_where_parts_end() {
        assert_eq!(minted(&[b"a", b"b"]), minted(&[b"a", b"b"]));
        assert_ne!(minted(&[b"a", b"b"]), minted(&[b"ab", b""]));
        assert_eq!(minted(&[]).len(), 29);
    }

    #[test]
    fn an_id_that_every_dialect_takes_stays_and_another_becomes_the_same_everywhere() {
        assert_eq!(own_or_minted(Some("toolu_1-A"), &[b"x"]), "toolu_1-A");
        assert_eq!(own_or_minted(Some("a b"), &[b"x"]), own_or_minted(Some("a b"), &[b"y"]));
        assert_eq!(own_or_minted(Some(""), &[b"x"]), minted(&[b"x"]));
        assert_eq!(own_or_minted(Some(&"x".repeat(41)), &[]).len(), 29);
    }
}
