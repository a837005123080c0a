//! The cache folder: where it is, one writer at a time, nothing half-written.

use std::{
    env,
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::progress::say;

/// Files and folders with this prefix are being written; nobody reads them.
pub(super) const PARTIAL: &str = ".partial-";

/// `${XDG_CACHE_HOME:-$HOME/.cache}/kantor`.
pub(super) fn root() -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .context("no cache folder: set XDG_CACHE_HOME or HOME to an absolute path")?;
    Ok(base.join("kantor"))
}

/// The first characters of the SHA-256 of the parts, for a folder name.
pub(super) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        // Parts must not run into each other.
        hash.update([0]);
    }
    hash.finalize().iter().take(5).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Holds the cache folder for writing; other processes wait until it is dropped.
pub(super) struct Writer {
    _lock: File,
}

impl Writer {
    /// Waits for other writers of `folder`, then clears what an interrupted one left behind.
    pub(super) fn of(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)
            .with_context(|| format!("make {}: set XDG_CACHE_HOME to a writable folder", folder.display()))?;
        let path = folder.join(".lock");
        let lock =
            File::options().create(true).truncate(false).write(true).open(&path).with_context(|| {
                format!("open {}: set XDG_CACHE_HOME to a writable folder", path.display())
            })?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                say(&format!("another process fills {}: waiting for it", folder.display()));
                lock.lock().with_context(|| format!("lock {}", path.display()))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("lock {}", path.display()));
            }
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
                remove(&entry.path()).with_context(|| format!("remove {}", entry.path().display()))?;
            }
        }
        Ok(Self { _lock: lock })
    }
}

fn remove(path: &Path) -> io::Result<()> {
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// A folder in the cache with a link to each of the files, which live in several places.
pub(super) fn folder_of_links(paths: &[PathBuf]) -> Result<PathBuf> {
    let names: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    let links = root()?.join("links");
    let _writer = Writer::of(&links)?;
    let folder = links.join(fingerprint(names.iter().map(AsRef::as_ref)));
    if folder.is_dir() {
        return Ok(folder);
    }
    let partial = links.join(format!("{PARTIAL}links"));
    fs::create_dir(&partial)?;
    for path in paths {
        let target = fs::canonicalize(path).with_context(|| format!("find {}", path.display()))?;
        symlink(target, partial.join(path.file_name().context("a binary without a name")?))?;
    }
    fs::rename(&partial, &folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(folder)
}
