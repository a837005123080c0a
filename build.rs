//! Tells the build which commit it is of.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=KANTOR_GIT_COMMIT");
    // Only builds that are shipped: else each commit would be a new build of everything.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = std::env::var("KANTOR_GIT_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| if is_release { of_checkout() } else { Some("development".to_owned()) });
    println!("cargo::rustc-env=KANTOR_GIT_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

fn of_checkout() -> Option<String> {
    println!("cargo::rerun-if-changed=.git/HEAD");
    println!("cargo::rerun-if-changed=.git/refs/heads");
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
