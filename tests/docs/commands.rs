//! Commands of the pages, run in the order of the pages on real clusters.
//!
//! A comment in the line before a block of shell commands says whether it is run: `<!-- run -->`, or `<!-- not-run: why -->`.
//! All blocks of a page are one story. They run in a folder that has `config` and `crds` of the project, with kubectl and kantor in the path, and with a
//! kubeconfig that has the contexts `control-plane` (the current one), `plane-eu` and `plane-us`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Stdio},
};

use kantor_testbed::{Cluster, CrdBundle, KubeconfigSpec, Operator, assets::Binary};
use serde_json::{Value, json};

use super::pages::{Block, page, pages, root};

/// Pages whose commands run, in this order; each may build on those before it.
const STORIES: &[&str] = &[
    "README.md",
    "docs/quickstart.md",
    "docs/how-to/register-a-data-plane.md",
    "docs/how-to/deploy-an-application.md",
    "docs/how-to/expose-an-endpoint.md",
    "docs/how-to/release-any-objects.md",
    "docs/how-to/migrate-from-openchoreo.md",
    "docs/troubleshooting.md",
    "docs/operate.md",
];

/// Blocks that run. One that no longer does has to be struck off here, by somebody who knows why.
const RUN: usize = 18;

/// Whether a block's commands run, or why they cannot.
#[derive(Debug, PartialEq, Eq)]
enum Fate<'a> {
    Runs,
    CannotRun(&'a str),
    NoCommands,
}

fn fate(block: &Block) -> Result<Fate<'_>, String> {
    match (block.info.as_str(), block.mark.as_deref().unwrap_or_default()) {
        (info, _) if info.contains(' ') => Err("readers see what stands behind the language".to_owned()),
        ("sh", "run") => Ok(Fate::Runs),
        ("sh", mark) => {
            mark.strip_prefix("not-run: ").filter(|why| why.len() > 5).map(Fate::CannotRun).ok_or_else(|| {
                "write `<!-- run -->` or `<!-- not-run: why -->` in the line before".to_owned()
            })
        }
        ("", _) => Err("say what is in it: sh, yaml, text, rust, …".to_owned()),
        _ => {
            let is_command = |line: &str| {
                ["kubectl ", "kantor ", "helm ", "make ", "cargo "]
                    .iter()
                    .any(|program| line.starts_with(program))
            };
            match block.text.lines().find(|line| is_command(line)) {
                Some(line) => Err(format!("{line:?} is a command: mark the block as sh")),
                None => Ok(Fate::NoCommands),
            }
        }
    }
}

#[test]
fn every_block_of_commands_says_whether_it_runs() {
    let mut wrong = vec![];
    for page in pages() {
        // Generated pages show fields, not commands.
        if page.path.starts_with("docs/reference") {
            continue;
        }
        for block in page.blocks() {
            let at = format!("{}:{}", page.path.display(), block.line);
            match fate(&block) {
                Ok(Fate::Runs) if !STORIES.contains(&page.path.to_str().unwrap()) => {
                    wrong.push(format!("{at}: the page is not among STORIES"));
                }
                Ok(_) => {}
                Err(why) => wrong.push(format!("{at}: {why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// One kubeconfig with a context for each cluster; the first is the current one.
fn kubeconfig(clusters: &[&KubeconfigSpec]) -> String {
    let mut all = json!({"apiVersion": "v1", "kind": "Config", "current-context": clusters[0].name});
    for list in ["clusters", "users", "contexts"] {
        let entries = clusters.iter().map(|cluster| {
            let one: Value = serde_saphyr::from_str(&cluster.to_yaml()).unwrap();
            one[list][0].clone()
        });
        all[list] = entries.collect();
    }
    all.to_string()
}

/// Runs the commands of a block; tells what they printed if they fail.
fn run(block: &Block, folder: &Path, environment: &[(&str, String)]) -> Result<(), String> {
    let script = format!("set -euo pipefail\n{}", block.text);
    let mut bash = Command::new("timeout");
    bash.args(["--kill-after=5", "600", "bash", "-c", &script]).current_dir(folder).stdin(Stdio::null());
    bash.env_remove("KUBECONFIG").envs(environment.iter().map(|(name, value)| (*name, value)));
    let output = bash.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    // kubectl is content with finding nothing, and so would be whoever follows a page that no longer holds.
    let nothing = reads(&block.text) && (said.trim().is_empty() || complained.contains("No resources found"));
    if output.status.success() && !nothing {
        return Ok(());
    }
    let why = if nothing { "it shows nothing".to_owned() } else { output.status.to_string() };
    Err(format!("{why}\n{said}{complained}"))
}

/// Whether people look at what a block prints.
fn reads(text: &str) -> bool {
    text.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // What goes to a file is looked at there.
        let prints = words.first().is_some_and(|word| *word == "kubectl") && !words.contains(&">");
        prints && words.iter().any(|word| ["get", "describe", "explain", "events", "logs"].contains(word))
    })
}

#[test]
fn blocks_that_read_are_told_from_those_that_write() {
    for (text, expected) in [
        ("kubectl get dataplanes -A\n", true),
        ("kubectl -n acme describe deployment.openchoreo.dev cart\n", true),
        ("kubectl apply -f x.yaml\nkubectl -n acme get releases\n", true),
        ("kubectl apply -f get.yaml\n", false),
        ("kubectl get openchoreo -A -o yaml > kantor-backup.yaml\n", false),
        ("kantor get\n", false),
    ] {
        assert_eq!(reads(text), expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_that_can_run_does() {
    let plane = |name: &str| {
        Cluster::builder()
            .name(name)
            .controllers(true)
            .scheduler(true)
            .nodes(1)
            .crds(&CrdBundle::USED)
            .start()
    };
    let control_plane = Cluster::builder().name("control-plane").controllers(true).start();
    let (control_plane, eu, us) =
        tokio::try_join!(control_plane, plane("plane-eu"), plane("plane-us")).unwrap();
    let kantor = Path::new(env!("CARGO_BIN_EXE_kantor"));
    let operator = Operator::start(
        kantor,
        &control_plane.kubeconfig(),
        ["--allow-loopback-planes", "--leader-elect=true"],
    )
    .await
    .unwrap();

    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(kantor, bin.join("kantor")).unwrap();
    symlink(Binary::Kubectl.path().unwrap(), bin.join("kubectl")).unwrap();
    for name in ["config", "crds"] {
        symlink(root().join(name), folder.path().join(name)).unwrap();
    }
    let file = folder.path().join("kubeconfig");
    fs::write(&file, kubeconfig(&[&control_plane.kubeconfig(), &eu.kubeconfig(), &us.kubeconfig()])).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let environment = [
        ("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())),
        ("KUBECONFIG", file.display().to_string()),
        ("HOME", folder.path().display().to_string()),
        ("KANTOR_ALLOW_LOOPBACK_PLANES", "true".to_owned()),
        ("KANTOR", format!("http://{}", operator.address())),
    ];

    let mut count = 0;
    for path in STORIES {
        let page = page(path);
        for block in page.blocks() {
            if fate(&block) == Ok(Fate::Runs) {
                let done = run(&block, folder.path(), &environment);
                done.unwrap_or_else(|why| {
                    panic!("{path}:{}:\n{}\n{why}\n{}", block.line, block.text, operator.log())
                });
                count += 1;
            }
        }
    }
    assert!(count >= RUN, "{count} blocks ran, of {RUN} at the least");
}
