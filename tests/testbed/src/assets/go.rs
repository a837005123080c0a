//! The Go command: found, recent enough.

use std::{io::ErrorKind, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::command::run;
use crate::folder::Folder;

/// The oldest Go release that builds the pinned modules.
const NEEDED: (u32, u32) = (1, 26);
const HOW_TO_GET_GO: &str = "install Go 1.26.7 or later (https://go.dev/dl, or your system's packages) and put `go` on \
     the PATH, or set KUBEBUILDER_ASSETS to a folder that holds the binaries";

/// A module as `go mod download -json` tells it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Module {
    pub(super) dir: std::path::PathBuf,
    sum: String,
}

/// `go` in `folder`, undisturbed by the user's workspace and target settings.
pub(super) fn command(folder: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(folder)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env_remove("GOOS")
        .env_remove("GOARCH");
    go
}

/// Refuses a missing or old Go. `folder` holds the go.mod: Go may fetch the newer release that this file asks for.
pub(super) fn check(folder: &Path) -> Result<()> {
    let version = |folder: &Path| -> Result<Option<String>> {
        let output = match command(folder).args(["env", "GOVERSION"]).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("Go is not installed: {HOW_TO_GET_GO}")
            }
            other => other.context("run `go env GOVERSION`")?,
        };
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok((output.status.success() && !text.is_empty()).then_some(text))
    };
    if version(folder)?.as_deref().and_then(release).is_some_and(|found| found >= NEEDED) {
        return Ok(());
    }
    let found = version(Path::new("/"))?.unwrap_or_else(|| "an unknown version".to_owned());
    bail!("Go is too old (found {found}, need >= {}.{}): {HOW_TO_GET_GO}", NEEDED.0, NEEDED.1)
}

/// `(1, 26)` from `go1.26.8`, `go1.27rc1` and the like.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix("go")?.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The module's files, downloaded where necessary, only if they are the ones that `sum` stands for.
pub(super) fn module(path: &str, version: &str, sum: &str) -> Result<Module> {
    let folder = Folder::temporary("go")?;
    check(folder.path())?;
    let mut download = command(folder.path());
    download.args(["mod", "download", "-json", &format!("{path}@{version}")]);
    let output = run(&download, format!("download {path} {version}"))?;
    // Go tells its downloads around the answer.
    let json = output.find('{').map_or("", |start| &output[start..]);
    let module: Module = serde_json::Deserializer::from_str(json)
        .into_iter()
        .next()
        .with_context(|| format!("`go mod download -json` says nothing of {path}: {output}"))?
        .with_context(|| format!("understand what Go says of {path}: {output}"))?;
    ensure!(
        module.sum == sum,
        "{path} {version} has the checksum {}, not the pinned {sum}: do not use it; the module proxy serves other \
         files than those that were reviewed",
        module.sum
    );
    Ok(module)
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn go_versions_are_compared_by_their_numbers() {
        assert_eq!(release("go1.26.8"), Some((1, 26)));
        assert_eq!(release("go1.27rc1"), Some((1, 27)));
        assert!(release("go1.9") < Some((1, 26)));
        assert_eq!(release("devel"), None);
    }
}
