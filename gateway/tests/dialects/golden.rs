//! Files to read, and files to compare with.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::ProptestConfig;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dialects").join(name)
}

/// What is given.
pub(crate) fn fixture(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Compares with what is expected, or makes it so.
pub(crate) fn compare(name: &str, found: &str) {
    compare_file(&path(&format!("golden/{name}")), found);
}

pub(crate) fn compare_file(path: &PathBuf, found: &str) {
    if std::env::var_os("HEADGATE_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, found).unwrap();
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    for (at, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
        assert_eq!(expected, found, "{}:{}", path.display(), at + 1);
    }
    assert_eq!(expected, found, "{}", path.display());
}

/// A third of the usual cases, for properties that look at every pair of dialects.
pub(crate) fn cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.div_ceil(3), ..usual }
}
