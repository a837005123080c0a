//! Temporary folders that vanish with their owner, or with this process.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::keeper;

/// A folder of our own making, private to this user.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes `kantor-LABEL-XXXXXX` in the system's temporary folder.
    pub(crate) fn temporary(label: &str) -> Result<Self> {
        let parent = std::env::temp_dir();
        let folder =
            tempfile::Builder::new().prefix(&format!("kantor-{label}-")).tempdir_in(&parent).with_context(
                || format!("make a folder in {}: set TMPDIR to a writable folder", parent.display()),
            )?;
        keeper::guard_folder(folder.path())?;
        Ok(Self(folder.keep()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        match std::fs::remove_dir_all(&self.0) {
            Ok(()) => keeper::forget_folder(&self.0),
            // The keeper still knows the folder and tries again when this process ends.
            Err(error) => {
                tracing::warn!(folder = %self.0.display(), %error, "cannot remove a temporary folder");
            }
        }
    }
}
