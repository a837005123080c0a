//! Published binaries, from a server on this machine that plays the projects' servers.

use std::{
    collections::HashMap,
    env::consts::ARCH,
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use kantor_testbed::assets::{self, Binary, KUBERNETES_VERSION};
use sha2::{Digest, Sha256};
use tokio::net::TcpSocket;

use super::{BUILDS, Machine, program};
use crate::observe::{is_empty, stderr, stdout};

/// Those that are published with a checksum.
const PUBLISHED: [Binary; 5] = [
    Binary::Etcd,
    Binary::KubeApiserver,
    Binary::KubeControllerManager,
    Binary::KubeScheduler,
    Binary::Kubectl,
];

/// The projects' files, by path below the mirror.
#[derive(Clone, Default)]
struct Files {
    bodies: HashMap<String, Vec<u8>>,
    /// The file that is cut off after so many bytes, the first time.
    cut: Option<(String, usize)>,
}

fn arch() -> &'static str {
    if ARCH == "aarch64" { "arm64" } else { "amd64" }
}

fn content(name: &str) -> Vec<u8> {
    let text = format!("#!/bin/sh\necho published {name}\n# {}\n", name.repeat(5000));
    text.into_bytes()
}

fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn kube(name: &str) -> String {
    format!("/dl.k8s.io/release/{KUBERNETES_VERSION}/bin/linux/{}/{name}", arch())
}

impl Files {
    /// All that the projects publish, with the right checksums.
    fn published() -> Self {
        let mut files = Self::default();
        for binary in PUBLISHED.into_iter().filter(|binary| *binary != Binary::Etcd) {
            files.put(kube(binary.name()), content(binary.name()));
        }
        let versions: HashMap<_, _> = assets::versions().unwrap().into_iter().collect();
        let version = versions["etcd"];
        let folder = format!("etcd-{version}-linux-{}", arch());
        let archive = archive(&folder);
        let release = format!("/github.com/etcd-io/etcd/releases/download/{version}");
        let other = "0".repeat(64);
        let sums = format!("{other}  other.tar.gz\n{}  {folder}.tar.gz\n", sha256(&archive));
        files.bodies.insert(format!("{release}/SHA256SUMS"), sums.into_bytes());
        files.bodies.insert(format!("{release}/{folder}.tar.gz"), archive);
        files
    }

    fn put(&mut self, path: String, body: Vec<u8>) {
        self.bodies.insert(format!("{path}.sha256"), sha256(&body).into_bytes());
        self.bodies.insert(path, body);
    }
}

/// An archive like etcd's, with more than the server in it.
fn archive(folder: &str) -> Vec<u8> {
    let work = tempfile::tempdir().unwrap();
    fs::create_dir(work.path().join(folder)).unwrap();
    for name in ["etcd", "etcdctl", "README.md"] {
        fs::write(work.path().join(folder).join(name), content(name)).unwrap();
    }
    let file = work.path().join("archive");
    let status = Command::new("tar").arg("-czf").arg(&file).arg("-C").arg(work.path()).arg(folder).status();
    assert!(status.unwrap().success());
    fs::read(file).unwrap()
}

/// Serves files, with ranges, until the test ends. One request per connection.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(mut files: Files) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let requests = server.requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), &mut files, &requests);
            }
        });
        server
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, files: &mut Files, requests: &Mutex<Vec<String>>) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let lines: Vec<_> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
    let path = lines[0].split(' ').nth(1).unwrap().to_owned();
    let range = lines.iter().find_map(|line| line.strip_prefix("Range: bytes="));
    let start: usize = range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
    requests.lock().unwrap().push(range.map_or_else(|| path.clone(), |range| format!("{path} {range}")));
    let Some(body) = files.bodies.get(&path) else {
        write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        return;
    };
    let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
    let range = format!("Content-Range: bytes {start}-{}/{}\r\n", body.len() - 1, body.len());
    let range = if start > 0 { range.as_str() } else { "" };
    let length = body.len() - start;
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{range}Connection: close\r\n\r\n")
        .unwrap();
    let end = match files.cut.take_if(|(cut, _)| *cut == path) {
        Some((_, end)) => end,
        None => body.len(),
    };
    // Whoever has enough, for instance because the checksum is wrong, closes the connection.
    let _ = stream.write_all(&body[start..end]);
}

impl Machine {
    /// A machine with curl, tar and a Go that builds at once.
    fn that_downloads() -> Self {
        let machine = Self::new().with_bundles();
        machine.go("go1.26.8", BUILDS);
        for tool in ["curl", "tar", "gzip"] {
            machine.tool(tool);
        }
        machine
    }

    fn downloading_from(&self, address: SocketAddr) -> Command {
        let mut command = self.assets();
        command.args(["--for", "demo"]).env("KANTOR_ASSETS", "download");
        command.env("KANTOR_ASSETS_MIRROR", format!("http://{address}")).env("NO_PROXY", "127.0.0.1");
        command
    }

    fn downloaded(&self) -> PathBuf {
        let folders = fs::read_dir(self.path("cache/kantor/downloaded")).unwrap();
        let folders: Vec<_> = folders.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(folders.len(), 1);
        folders.into_iter().next().unwrap()
    }

    fn assert_nothing_half(&self) {
        let names = fs::read_dir(self.downloaded()).unwrap().map(|entry| entry.unwrap().file_name());
        let half: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(".d")).collect();
        assert!(half.is_empty(), "{half:?}");
        assert!(is_empty(&self.path("tmp")));
    }
}

/// Runs the command, which must succeed, and returns the folder of binaries and what was said.
fn run(mut command: Command) -> (PathBuf, String) {
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    (PathBuf::from(stdout(&output).lines().last().unwrap()), said)
}

fn is_published(folder: &Path, binary: Binary) -> bool {
    fs::read(folder.join(binary.name())).unwrap() == content(binary.name())
}

#[test]
fn published_binaries_are_downloaded_once_and_those_without_a_checksum_are_built() {
    let machine = Machine::that_downloads();
    let server = Server::start(Files::published());
    let (folder, said) = run(machine.downloading_from(server.address));
    for binary in Binary::ALL {
        assert_eq!(is_published(&folder, binary), PUBLISHED.contains(&binary), "{}: {said}", binary.name());
    }
    assert!(said.contains("build kwok (1 of 1): done") && !said.contains("12 minutes"), "{said}");
    assert!(!machine.downloaded().join("etcdctl").exists(), "more than the server was unpacked");
    machine.assert_nothing_half();

    let before = server.requests();
    assert_eq!(before.len(), 2 * PUBLISHED.len(), "{before:?}");
    assert_eq!(run(machine.downloading_from(server.address)).0, folder);
    assert_eq!(server.requests(), before);
}

#[test]
fn a_build_that_is_asked_for_uses_no_download() {
    let machine = Machine::that_downloads();
    let server = Server::start(Files::published());
    run(machine.downloading_from(server.address));
    let before = server.requests();
    let mut command = machine.downloading_from(server.address);
    command.env("KANTOR_ASSETS", "build");
    let (folder, said) = run(command);
    assert_eq!(folder, machine.built());
    assert!(said.contains("build kubectl (5 of 5): done"), "{said}");
    assert_eq!(server.requests(), before);

    let mut command = machine.downloading_from(server.address);
    let said = stderr(&command.env("KANTOR_ASSETS", "guess").output().unwrap());
    assert!(
        said.contains("KANTOR_ASSETS=guess is unknown: use `download`, the default, or `build`"),
        "{said}"
    );
}

#[test]
fn a_file_with_another_checksum_is_not_used() {
    let machine = Machine::that_downloads();
    let mut files = Files::published();
    files.bodies.insert(kube("kubectl"), b"#!/bin/sh\necho something else\n".to_vec());
    let server = Server::start(files);
    let (folder, said) = run(machine.downloading_from(server.address));
    let expected = sha256(&content("kubectl"));
    assert!(said.contains("kubectl will be built, not downloaded"), "{said}");
    assert!(said.contains(&format!("published is {expected}")), "{said}");
    assert!(fs::read_to_string(folder.join("kubectl")).unwrap().contains("k8s.io/kubernetes/cmd/kubectl"));
    assert!(!machine.downloaded().join("kubectl").exists());
    assert!(is_published(&folder, Binary::KubeScheduler));
    machine.assert_nothing_half();
}

#[test]
fn a_download_that_is_cut_off_is_resumed() {
    let machine = Machine::that_downloads();
    let mut files = Files::published();
    files.cut = Some((kube("kube-apiserver"), 40_000));
    let server = Server::start(files);
    let (folder, said) = run(machine.downloading_from(server.address));
    assert!(said.contains("resume the download of kube-apiserver: done"), "{said}");
    assert!(is_published(&folder, Binary::KubeApiserver));
    assert!(
        server.requests().contains(&format!("{} 40000-", kube("kube-apiserver"))),
        "{:?}",
        server.requests()
    );
}

#[test]
fn the_next_process_resumes_a_download() {
    let machine = Machine::that_downloads();
    let server = Server::start(Files::published());
    run(machine.downloading_from(server.address));
    let folder = machine.downloaded();
    for (binary, left) in [
        (Binary::KubeScheduler, content("kube-scheduler")[..30_000].to_vec()),
        // Of another file: it is thrown away and downloaded from its beginning.
        (Binary::Kubectl, b"something else".to_vec()),
        // Complete, but not moved in place.
        (Binary::KubeControllerManager, content("kube-controller-manager")),
    ] {
        fs::remove_file(folder.join(binary.name())).unwrap();
        fs::write(folder.join(format!(".download-{}", binary.name())), left).unwrap();
    }
    let before = server.requests().len();
    let (binaries, said) = run(machine.downloading_from(server.address));
    for binary in PUBLISHED {
        assert!(is_published(&binaries, binary), "{}: {said}", binary.name());
    }
    let requests = server.requests().split_off(before);
    assert!(requests.contains(&format!("{} 30000-", kube("kube-scheduler"))), "{requests:?}");
    assert!(requests.contains(&kube("kubectl")), "{requests:?}");
    assert!(!requests.iter().any(|path| path.starts_with(&format!("{} ", kube("kube-controller-manager")))));
    machine.assert_nothing_half();
}

#[test]
fn an_absent_file_is_built_and_the_others_are_downloaded() {
    let machine = Machine::that_downloads();
    let mut files = Files::published();
    files.bodies.remove(&kube("kubectl"));
    files.bodies.remove(&format!("{}.sha256", kube("kube-scheduler")));
    let server = Server::start(files);
    let (folder, said) = run(machine.downloading_from(server.address));
    for name in ["kubectl", "kube-scheduler"] {
        assert!(said.contains(&format!("{name} will be built, not downloaded")), "{said}");
    }
    assert!(said.contains("404"), "{said}");
    let absent = [Binary::Kubectl, Binary::KubeScheduler];
    for binary in PUBLISHED {
        assert_eq!(is_published(&folder, binary), !absent.contains(&binary), "{}", binary.name());
    }
    machine.assert_nothing_half();
}

#[test]
fn a_server_without_an_answer_is_given_up_once_and_everything_is_built() {
    let machine = Machine::that_downloads();
    // Nobody accepts connections here: when the queue is full, further ones are not answered.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let _runtime = runtime.enter();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(300));
    let waiting: Vec<_> = (0..20).map(connect).take_while(Result::is_ok).collect();
    assert!(waiting.len() < 20, "the queue is never full");

    let (folder, said) = run(machine.downloading_from(address));
    assert_eq!(folder, machine.built());
    assert_eq!(said.matches("the binaries will be built, not downloaded").count(), 1, "{said}");
    assert!(said.contains("build kwok (6 of 6): done"), "{said}");
}

#[test]
fn without_curl_everything_is_built() {
    let machine = Machine::new().with_bundles();
    machine.go("go1.26.8", BUILDS);
    let (folder, said) = run(machine.downloading_from(([127, 0, 0, 1], 1).into()));
    assert_eq!(folder, machine.built());
    assert!(said.contains("will be built, not downloaded: curl is not on the PATH"), "{said}");
}

#[test]
fn the_demo_needs_neither_helm_nor_envoy_nor_the_rules_checker() {
    let machine = Machine::new().with_bundles();
    machine.go("go1.26.8", BUILDS);
    let mut command = machine.assets();
    command.args(["--for", "demo"]);
    let (_, said) = run(command);
    let folders = || {
        let entries = fs::read_dir(machine.path("cache/kantor")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !["crds", "downloaded"].contains(&name.as_str()));
        names.sort();
        names
    };
    assert_eq!(folders(), ["kube"], "{said}");

    program(&machine.path("bin/python3"), "exit 1");
    run(machine.assets());
    assert_eq!(folders(), ["envoy", "helm", "kube", "rules"]);
}
