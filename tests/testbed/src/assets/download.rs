//! Binaries as their projects publish them: downloaded with curl and checked against the published checksums.
//!
//! Only programs whose project publishes a checksum are downloaded. Everything else is built from its Go module, and so is a
//! program that cannot be downloaded. A download that was cut off is resumed, also by the next process.

use std::{
    env::{
        self,
        consts::{ARCH, OS},
    },
    fmt::{self, Display, Formatter},
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::{
    Binary,
    cache::{self, PARTIAL},
    command, is_program,
    progress::say,
};

/// Chooses between `download`, the default, and `build`.
const SOURCE: &str = "KANTOR_ASSETS";
/// A server that holds the files of the projects' servers, below a folder for each of them: `<mirror>/dl.k8s.io/release/…`.
const MIRROR: &str = "KANTOR_ASSETS_MIRROR";
/// After so many seconds without a connection, the binaries are built instead.
const CONNECT_TIMEOUT: &str = "3";
/// A file of checksums is small: a server that needs longer than these seconds is of no use.
const CHECKSUM_TIMEOUT: &str = "15";
/// A download that is cut off is resumed so often, as long as each attempt brings something.
const ATTEMPTS: usize = 10;
/// Files with this prefix wait for the rest of their download.
const UNFINISHED: &str = ".download-";

/// Where a project publishes a program.
pub(super) struct Published {
    /// The server and the path of the file.
    pub(super) address: String,
    /// The server and the path of the file that holds its SHA-256.
    pub(super) checksums: String,
    /// The path of the program in the file, if the file is a tar archive.
    pub(super) member: Option<String>,
}

impl Published {
    /// The published files of a binary, where its project publishes them for this machine with a checksum.
    fn of(binary: Binary) -> Result<Option<Self>> {
        let arch = match ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            _ => return Ok(None),
        };
        if OS != "linux" {
            return Ok(None);
        }
        let version = binary.version()?;
        Ok(match binary {
            Binary::Etcd => {
                let release = format!("github.com/etcd-io/etcd/releases/download/{version}");
                let name = format!("etcd-{version}-linux-{arch}");
                Some(Self {
                    address: format!("{release}/{name}.tar.gz"),
                    checksums: format!("{release}/SHA256SUMS"),
                    member: Some(format!("{name}/etcd")),
                })
            }
            // Its releases have no checksums.
            Binary::Kwok => None,
            kube => {
                let address = format!("dl.k8s.io/release/{version}/bin/linux/{arch}/{}", kube.name());
                Some(Self { checksums: format!("{address}.sha256"), address, member: None })
            }
        })
    }

    fn file_name(&self) -> &str {
        file_name(&self.address)
    }
}

fn file_name(address: &str) -> &str {
    address.rsplit('/').next().unwrap_or(address)
}

/// Why a program is not downloaded.
enum Failure {
    /// No file can be had from the server now.
    Unreachable(String),
    /// This file cannot be had, or is not the published one.
    Unusable(String),
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::Unusable(why) => formatter.write_str(why),
        }
    }
}

/// Whether downloads are allowed here.
pub(super) fn is_allowed() -> Result<bool> {
    match env::var(SOURCE).unwrap_or_default().as_str() {
        "" | "download" => Ok(true),
        "build" => Ok(false),
        other => bail!("{SOURCE}={other} is unknown: use `download`, the default, or `build`"),
    }
}

/// Where downloaded binaries live. They are not those of the build, so that `KANTOR_ASSETS=build` uses none of them.
pub(super) fn folder() -> Result<PathBuf> {
    let versions = Binary::ALL.iter().map(|binary| binary.version()).collect::<Result<Vec<_>>>()?;
    let name = format!(
        "{}-{}",
        Binary::KubeApiserver.version()?,
        cache::fingerprint(versions.into_iter().chain([OS, ARCH]))
    );
    Ok(cache::root()?.join("downloaded").join(name))
}

/// Downloads those of the binaries that are published, and returns the others.
pub(super) fn fetch(binaries: &[Binary]) -> Result<Vec<Binary>> {
    let folder = folder()?;
    let _writer = cache::Writer::of(&folder)?;
    let mut left = Vec::new();
    let mut is_reachable = true;
    for binary in binaries {
        let Some(published) = Published::of(*binary)?.filter(|_| is_reachable) else {
            left.push(*binary);
            continue;
        };
        match published.fetch(binary.name(), &folder)? {
            Ok(()) => {}
            Err(failure) => {
                is_reachable = !matches!(failure, Failure::Unreachable(_));
                let what = if is_reachable { binary.name() } else { "the binaries" };
                say(&format!("{what} will be built, not downloaded: {failure}"));
                left.push(*binary);
            }
        }
    }
    Ok(left)
}

impl Published {
    fn fetch(&self, name: &str, folder: &Path) -> Result<Result<(), Failure>> {
        let expected = match self.checksum()? {
            Ok(checksum) => checksum,
            Err(failure) => return Ok(Err(failure)),
        };
        let file = folder.join(format!("{UNFINISHED}{}", self.file_name()));
        if let Err(failure) = self.complete(&file, &expected)? {
            return Ok(Err(failure));
        }
        let partial = folder.join(format!("{PARTIAL}{name}"));
        match &self.member {
            None => fs::rename(&file, &partial).context("keep the download")?,
            Some(member) => {
                unpack(&file, member, &partial)?;
                fs::remove_file(&file).context("remove the archive")?;
            }
        }
        fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("make {name} a program"))?;
        if !is_program(&partial) {
            return Ok(Err(Failure::Unusable(format!("{} holds no program", self.file_name()))));
        }
        // Readers look for the final name only, and a rename shows all of the file or none of it.
        fs::rename(&partial, folder.join(name)).with_context(|| format!("move {name} in place"))?;
        Ok(Ok(()))
    }

    /// The published SHA-256 of the file.
    fn checksum(&self) -> Result<Result<String, Failure>> {
        let mut curl = curl();
        let output = curl
            .args(["--max-time", CHECKSUM_TIMEOUT])
            .arg(url(&self.checksums))
            .stdin(Stdio::null())
            .output();
        let output = match output {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Err(Failure::Unreachable("curl is not on the PATH".to_owned())));
            }
            other => other.context("run curl")?,
        };
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Ok(Err(match output.status.code() {
                Some(HTTP_ERROR) => Failure::Unusable(format!("{}: {said}", self.checksums)),
                _ => Failure::Unreachable(format!("{}: {said}", self.checksums)),
            }));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(listed_checksum(&text, self.file_name()).ok_or_else(|| {
            Failure::Unusable(format!("{} names no SHA-256 of {}", self.checksums, self.file_name()))
        }))
    }

    /// Downloads the file, or the rest of it, until it has the expected checksum.
    fn complete(&self, file: &Path, expected: &str) -> Result<Result<(), Failure>> {
        let mut found = sha256(file)?;
        let mut attempts = 0;
        while found.as_deref() != Some(expected) {
            if attempts == ATTEMPTS {
                return Ok(Err(Failure::Unusable(format!("{} was cut off {ATTEMPTS} times", self.address))));
            }
            attempts += 1;
            let before = size(file);
            let mut curl = curl();
            curl.args(["--continue-at", "-", "--speed-limit", "1024", "--speed-time", "20", "--output"])
                .arg(file);
            curl.arg(url(&self.address));
            let title = if before == 0 { "download" } else { "resume the download of" };
            let (status, said) = command::attempt(&curl, format!("{title} {}", self.file_name()))?;
            found = sha256(file)?;
            if found.as_deref() == Some(expected) {
                break;
            }
            if status.success() || status.code() == Some(HTTP_ERROR) || status.code() == Some(RANGE_ERROR) {
                // The end of the file came, or none of it: what is there is of no use, and may come from an earlier process.
                if before == 0 {
                    remove(file)?;
                    let why = if status.success() {
                        format!("its SHA-256 is {}, published is {expected}", found.unwrap_or_default())
                    } else {
                        said.trim().to_owned()
                    };
                    return Ok(Err(Failure::Unusable(format!("{}: {why}", self.address))));
                }
                remove(file)?;
                found = None;
            } else if size(file) <= before {
                return Ok(Err(Failure::Unreachable(format!("{}: {}", self.address, said.trim()))));
            }
        }
        Ok(Ok(()))
    }
}

/// curl's exit code for an answer of 400 and above.
const HTTP_ERROR: i32 = 22;
/// curl's exit code for a server that does not resume.
const RANGE_ERROR: i32 = 33;

/// curl with the connect timeout; nothing but HTTPS, unless the mirror is of another kind.
fn curl() -> Command {
    let protocols =
        if env::var(MIRROR).is_ok_and(|mirror| mirror.starts_with("http://")) { "=http" } else { "=https" };
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--location"]).args([
        "--connect-timeout",
        CONNECT_TIMEOUT,
        "--proto",
        protocols,
        "--proto-redir",
        protocols,
    ]);
    curl
}

fn url(address: &str) -> String {
    match env::var(MIRROR).ok().filter(|mirror| !mirror.is_empty()) {
        Some(mirror) => format!("{}/{address}", mirror.trim_end_matches('/')),
        None => format!("https://{address}"),
    }
}

/// The checksum of the file in a list in the format of sha256sum, or the only word of the text.
fn listed_checksum(text: &str, name: &str) -> Option<String> {
    let is_checksum = |word: &str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let checksum = words.next()?;
        let named = words.next().is_none_or(|path| file_name(path.trim_start_matches('*')) == name);
        (is_checksum(checksum) && named).then(|| checksum.to_ascii_lowercase())
    };
    text.lines().find_map(of_line)
}

/// The SHA-256 of the file, if there is one.
fn sha256(path: &Path) -> Result<Option<String>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("read {}", path.display()))?,
    };
    let mut hash = Hashing(Sha256::new());
    io::copy(&mut file, &mut hash).with_context(|| format!("read {}", path.display()))?;
    Ok(Some(hash.0.finalize().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))))
}

/// A digest as a writer.
struct Hashing(Sha256);

impl io::Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Writes one member of a compressed tar archive to `target`.
fn unpack(archive: &Path, member: &str, target: &Path) -> Result<()> {
    let file = File::create(target).with_context(|| format!("write {}", target.display()))?;
    let status =
        Command::new("tar").arg("-xzOf").arg(archive).arg(member).stdin(Stdio::null()).stdout(file).status();
    let status = status.context("run tar, which unpacks downloaded archives")?;
    if !status.success() {
        bail!("tar found no {member} in {}", archive.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::listed_checksum;

    #[test]
    fn a_checksum_is_found_by_the_name_of_its_file() {
        let (a, b) = ("a".repeat(64), "B".repeat(64));
        let list = format!("{a}  etcd-v1-linux-amd64.tar.gz\n{b}  release/etcd-v1-linux-arm64.tar.gz\n");
        assert_eq!(listed_checksum(&list, "etcd-v1-linux-amd64.tar.gz"), Some(a.clone()));
        assert_eq!(listed_checksum(&list, "etcd-v1-linux-arm64.tar.gz"), Some("b".repeat(64)));
        assert_eq!(listed_checksum(&list, "etcd-v1-linux-s390x.tar.gz"), None);
        assert_eq!(listed_checksum(&format!("{a}\n"), "kubectl"), Some(a));
        assert_eq!(listed_checksum("<html>sign in</html>", "kubectl"), None);
    }
}
