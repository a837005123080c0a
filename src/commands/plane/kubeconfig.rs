//! `kantor plane kubeconfig`: an identity on a cluster, and what registers the cluster with it.

use std::{io::Write as _, path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use clap::Args;
use jiff::SignedDuration;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kantor_api::DataPlane;
use kantor_core::registration::{self, Account, Identity, Way};
use kube::Resource;
use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::{Value, json};

use super::source::{Source, way};
use crate::{
    apply::{WriteError, Writer},
    commands::{self, rbac},
    planes::{AddressPolicy, credentials_expiry, parse_kubeconfig},
};

/// How long one write may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Stands for the token where there is none.
const NO_TOKEN: &str = "made-when-it-is-run";

/// Make a ServiceAccount on a cluster, with the rights that Kantor needs there, and print the Secret with its
/// kubeconfig that registers the cluster as a data plane. Kantor renews the token in it before it ends.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct KubeconfigArgs {
    /// Name of the DataPlane, and of the Secret.
    #[arg(long, value_name = "NAME", help_heading = "Registration")]
    name: String,
    /// Organization whose data plane it becomes: the namespace of the Secret.
    #[arg(long, value_name = "NAME", help_heading = "Registration")]
    organization: String,
    /// Print, or apply, the DataPlane as well.
    #[arg(long, help_heading = "Registration")]
    with_data_plane: bool,
    /// Kubeconfig of the cluster; without one, $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; its current one if not set.
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    context: Option<String>,
    /// Address of the API server as Kantor reaches it, if it is not that of the context.
    #[arg(long, value_name = "URL", help_heading = "Cluster")]
    server: Option<String>,
    /// Authorities of the API server's certificate, PEM, if they are not those of the context.
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    certificate_authority: Option<PathBuf>,
    /// Allow an address of this machine (127.0.0.0/8, ::1), as `kantor controller --allow-loopback-planes` does.
    #[arg(long, env = "KANTOR_ALLOW_LOOPBACK_PLANES", help_heading = "Cluster")]
    allow_loopback_planes: bool,
    /// Namespace of the ServiceAccount; it is made if it is missing.
    #[arg(long, value_name = "NAME", default_value = "kantor-system", help_heading = "Identity")]
    namespace: String,
    /// Name of the ServiceAccount.
    #[arg(long, value_name = "NAME", default_value = "kantor", help_heading = "Identity")]
    service_account: String,
    /// How long the token is good, such as 720h or 90m; the cluster may make it shorter.
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = parse_life, help_heading = "Identity")]
    expires: SignedDuration,
    /// Apply to the control plane instead of printing.
    #[arg(long, help_heading = "Control plane")]
    apply: bool,
    /// Kubeconfig of the control plane; without one, $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE", requires = "apply", help_heading = "Control plane")]
    control_plane_kubeconfig: Option<PathBuf>,
    /// Context of the control plane.
    #[arg(long, value_name = "NAME", requires = "apply", help_heading = "Control plane")]
    control_plane_context: Option<String>,
    /// Write nothing; print all objects that would be written, without a token.
    #[arg(long)]
    dry_run: bool,
}

/// The shortest life that Kubernetes gives a token, and the longest that it understands.
const LIVES: (i64, i64) = (600, 1 << 32);

fn parse_life(text: &str) -> Result<SignedDuration, String> {
    let life: SignedDuration =
        text.parse().map_err(|_| "expected a duration such as 720h or 90m".to_owned())?;
    if (LIVES.0..=LIVES.1).contains(&life.as_secs()) {
        Ok(life)
    } else {
        Err(format!("expected 10m to {}h", LIVES.1 / 3600))
    }
}

/// Runs the command.
pub async fn run(args: &KubeconfigArgs) -> anyhow::Result<()> {
    let source = args.data_plane();
    let config = source.config().await?;
    let way = way(&config, args.server.as_deref(), args.authority()?)?;
    // Refused before anything is written: a kubeconfig that Kantor would not read.
    args.check(&way, NO_TOKEN)?;
    let account = Account { namespace: args.namespace.clone(), name: args.service_account.clone() };
    let identity = Identity::new(&account, roles()?);
    if args.dry_run {
        return print(&args.everything(&identity, &way)?);
    }

    let plane = Writer::new(source.client(config)?, DEADLINE);
    establish(&plane, &identity).await.context("cannot make the identity on the data plane")?;
    let token = plane
        .request_token(&account.namespace, &account.name, args.expires.as_secs())
        .await
        .context("cannot get a token from the data plane")?;
    let token = token.expose_secret();
    let ends = args.check(&way, token)?;
    tell(&format!(
        "the ServiceAccount {}/{} of {} has a token that {ends}",
        account.namespace, account.name, way.server
    ));

    let secret = registration::secret(&args.organization, &args.name, registration::kubeconfig(&way, token));
    let data_plane = args.data_plane_object();
    if !args.apply {
        let mut objects = vec![object(&secret)?];
        objects.extend(data_plane.as_ref().map(object).transpose()?);
        return print(&objects);
    }
    let source = args.control_plane();
    let control_plane = Writer::new(source.client(source.config().await?)?, DEADLINE);
    let (name, organization) = (&args.name, &args.organization);
    control_plane
        .apply_secret(&secret)
        .await
        .with_context(|| format!("cannot apply the Secret {organization}/{name} to the control plane"))?;
    tell(&format!("Secret {organization}/{name} applied"));
    if let Some(data_plane) = &data_plane {
        control_plane.apply(data_plane).await.with_context(|| {
            format!("cannot apply the DataPlane {organization}/{name} to the control plane")
        })?;
        tell(&format!("DataPlane {organization}/{name} applied"));
    }
    Ok(())
}

impl KubeconfigArgs {
    fn data_plane(&self) -> Source<'_> {
        Source { of: "data plane", kubeconfig: self.kubeconfig.as_ref(), context: self.context.as_deref() }
    }

    fn control_plane(&self) -> Source<'_> {
        Source {
            of: "control plane",
            kubeconfig: self.control_plane_kubeconfig.as_ref(),
            context: self.control_plane_context.as_deref(),
        }
    }

    fn authority(&self) -> anyhow::Result<Option<String>> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        self.certificate_authority.as_ref().map(read).transpose()
    }

    fn data_plane_object(&self) -> Option<DataPlane> {
        self.with_data_plane.then(|| registration::data_plane(&self.organization, &self.name))
    }

    /// Reads a kubeconfig with this token as the operator will; tells when the token ends.
    fn check(&self, way: &Way, token: &str) -> anyhow::Result<String> {
        let policy = AddressPolicy { allow_loopback: self.allow_loopback_planes };
        let access = parse_kubeconfig(registration::kubeconfig(way, token).as_bytes(), &policy).context(
            "Kantor would refuse the kubeconfig; --server and --certificate-authority say how Kantor reaches the cluster",
        )?;
        Ok(credentials_expiry(&access)
            .map_or_else(|| "has no end".to_owned(), |end| format!("ends at {end:.0}")))
    }

    /// All objects that would be written, on the data plane and on the control plane.
    fn everything(&self, identity: &Identity, way: &Way) -> anyhow::Result<Vec<Value>> {
        let Identity { namespace, account, roles, bindings, renewal } = identity;
        let mut objects = vec![object(namespace)?, object(account)?];
        for role in roles {
            objects.push(object(role)?);
        }
        for binding in bindings {
            objects.push(object(binding)?);
        }
        objects.extend([object(&renewal.0)?, object(&renewal.1)?]);
        let kubeconfig = registration::kubeconfig(way, NO_TOKEN);
        objects.push(object(&registration::secret(&self.organization, &self.name, kubeconfig))?);
        objects.extend(self.data_plane_object().as_ref().map(object).transpose()?);
        Ok(objects)
    }
}

/// The ClusterRoles of a data plane. What binds them is made for the account that was asked for.
fn roles() -> anyhow::Result<Vec<ClusterRole>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(&rbac::on_data_plane(rbac::NAMESPACE))
        .context("the roles of data planes are not YAML")?;
    let roles: Vec<ClusterRole> = documents
        .into_iter()
        .filter(|document| document["kind"] == "ClusterRole")
        .map(serde_json::from_value)
        .collect::<Result<_, _>>()
        .context("the roles of data planes are none")?;
    if roles.is_empty() {
        bail!("there are no roles for data planes");
    }
    Ok(roles)
}

async fn establish(plane: &Writer, identity: &Identity) -> Result<(), WriteError> {
    match plane.create(&identity.namespace).await {
        // One that is there is not ours to change.
        Ok(_) | Err(WriteError::Conflict) => {}
        Err(error) => return Err(error),
    }
    plane.apply(&identity.account).await?;
    for role in &identity.roles {
        plane.apply(role).await?;
    }
    for binding in &identity.bindings {
        plane.apply(binding).await?;
    }
    plane.apply(&identity.renewal.0).await?;
    plane.apply(&identity.renewal.1).await.map(drop)
}

/// An object with its type, and without what only a server writes.
fn object<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> anyhow::Result<Value> {
    let mut value = json!({"apiVersion": K::api_version(&()), "kind": K::kind(&())});
    let Value::Object(fields) = serde_json::to_value(object).context("an object cannot be written")? else {
        bail!("an object is none")
    };
    for (name, field) in fields.into_iter().filter(|(name, _)| name != "status") {
        value[name] = field;
    }
    Ok(value)
}

fn print(objects: &[Value]) -> anyhow::Result<()> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object).context("an object cannot be written as YAML")?);
    }
    commands::print(&text)
}

/// Says what was done, beside what is printed. It never has a token in it.
fn tell(what: &str) {
    writeln!(std::io::stderr(), "{what}").ok();
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: KubeconfigArgs,
    }

    fn args(more: &[&str]) -> Result<KubeconfigArgs, String> {
        let all = ["kubeconfig", "--name=eu", "--organization=acme"].iter().chain(more);
        Command::try_parse_from(all).map(|command| command.args).map_err(|error| error.to_string())
    }

    fn eu() -> Way {
        Way { server: "https://eu.example:6443/".to_owned(), tls_server_name: None, ca_pem: None }
    }

    #[rstest]
    #[case("720h", 2_592_000)]
    #[case("10m", 600)]
    #[case("1h30m", 5400)]
    fn lives_are_durations(#[case] text: &str, #[case] seconds: i64) {
        assert_eq!(args(&["--expires", text]).unwrap().expires.as_secs(), seconds);
    }

    #[rstest]
    #[case(&["--expires=9m"], "expected 10m")]
    #[case(&["--expires=long"], "such as 720h")]
    #[case(&["--control-plane-context=a"], "--apply")]
    fn what_cannot_be_is_refused_before_anything_is_done(#[case] more: &[&str], #[case] why: &str) {
        let error = args(more).unwrap_err();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn an_address_that_the_operator_would_refuse_is_refused_here() {
        let local = Way { server: "https://127.0.0.1:6443".to_owned(), ..eu() };
        let error = format!("{:#}", args(&[]).unwrap().check(&local, "t").unwrap_err());
        assert!(error.contains("clusters[0].cluster.server") && error.contains("--server"), "{error}");
        assert!(args(&["--allow-loopback-planes"]).unwrap().check(&local, "t").is_ok());
        assert!(args(&[]).unwrap().check(&eu(), "t").is_ok());
    }

    #[test]
    fn the_roles_give_no_rights_over_rights_and_no_wildcards() {
        for rule in roles().unwrap().into_iter().flat_map(|role| role.rules.unwrap_or_default()) {
            let said = format!("{rule:?}");
            let groups = rule.api_groups.clone().unwrap_or_default();
            assert!(!groups.iter().any(|group| group.starts_with("rbac.")), "{said}");
            assert!(!groups.iter().any(|group| group == "*"), "{said}");
            assert!(!rule.resources.iter().flatten().any(|resource| resource.contains('*')), "{said}");
            assert!(
                !rule.verbs.iter().any(|verb| ["*", "escalate", "bind"].contains(&verb.as_str())),
                "{said}"
            );
        }
    }

    #[test]
    fn a_dry_run_shows_each_object_that_would_be_written() {
        let args = args(&["--with-data-plane"]).unwrap();
        let account = Account { namespace: "kantor-system".to_owned(), name: "kantor".to_owned() };
        let identity = Identity::new(&account, roles().unwrap());
        let objects = args.everything(&identity, &eu()).unwrap();
        let kinds: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
        for kind in [
            "Namespace",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "Secret",
            "DataPlane",
        ] {
            assert!(kinds.contains(&kind), "{kinds:?}");
        }
        assert!(
            objects.iter().all(|object| object.get("status").is_none() && object["apiVersion"].is_string())
        );
    }
}
