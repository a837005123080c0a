//! Which fields a kubeconfig may have, level by level, and which of its contexts is meant.

use super::{Node, Refusal, document::DOCUMENT};

/// What is done about a field.
enum Rule {
    /// It is used.
    Read,
    /// It has no effect on how the cluster is reached, and real kubeconfigs have it.
    Ignore,
    /// It is dangerous; why, and what to use in its place.
    Refuse(&'static str),
}

use Rule::{Ignore, Read, Refuse};

type Level = [(&'static str, Rule)];

const ROOT: &Level = &[
    ("apiVersion", Read),
    ("kind", Read),
    ("clusters", Read),
    ("contexts", Read),
    ("current-context", Read),
    ("users", Read),
    ("preferences", Ignore),
    ("extensions", Ignore),
];

const NAMED_CLUSTER: &Level = &[("name", Read), ("cluster", Read)];

const CLUSTER: &Level = &[
    ("server", Read),
    ("certificate-authority-data", Read),
    ("tls-server-name", Read),
    ("insecure-skip-tls-verify", Read),
    ("disable-compression", Ignore),
    ("extensions", Ignore),
    ("certificate-authority", Refuse("files are never read; use certificate-authority-data")),
    ("proxy-url", Refuse("proxies are not used; set an address that can be reached directly")),
];

const NAMED_CONTEXT: &Level = &[("name", Read), ("context", Read)];

const CONTEXT: &Level = &[("cluster", Read), ("user", Read), ("namespace", Ignore), ("extensions", Ignore)];

const NAMED_USER: &Level = &[("name", Read), ("user", Read)];

const NO_COMMANDS: Rule = Refuse("commands are never run; use a token or client-certificate-data");
const NO_PASSWORDS: Rule = Refuse("passwords are not accepted; use a token or client-certificate-data");
const NO_IMPERSONATION: Rule =
    Refuse("impersonation is not accepted; use the credentials of the identity that is meant");

const USER: &Level = &[
    ("token", Read),
    ("client-certificate-data", Read),
    ("client-key-data", Read),
    ("extensions", Ignore),
    ("exec", NO_COMMANDS),
    ("auth-provider", NO_COMMANDS),
    ("tokenFile", Refuse("files are never read; use token")),
    ("client-certificate", Refuse("files are never read; use client-certificate-data")),
    ("client-key", Refuse("files are never read; use client-key-data")),
    ("username", NO_PASSWORDS),
    ("password", NO_PASSWORDS),
    ("as", NO_IMPERSONATION),
    ("as-uid", NO_IMPERSONATION),
    ("as-groups", NO_IMPERSONATION),
    ("as-user-extra", NO_IMPERSONATION),
];

const LEVELS: [&Level; 7] = [ROOT, NAMED_CLUSTER, CLUSTER, NAMED_CONTEXT, CONTEXT, NAMED_USER, USER];

/// A mapping whose fields have been judged, and where in the document it stands.
#[derive(Clone)]
pub(super) struct Section<'a> {
    path: String,
    entries: &'a [(String, Node)],
}

impl<'a> Section<'a> {
    fn judged(path: String, entries: &'a [(String, Node)], level: &Level) -> Result<Self, Refusal> {
        let section = Self { path, entries };
        for (index, (key, _)) in entries.iter().enumerate() {
            match level.iter().find(|(known, _)| known == key) {
                Some((_, Read | Ignore)) => {}
                Some((known, Refuse(why))) => return Err(Refusal::new(section.path_of(known), *why)),
                None => return Err(section.unknown(index, key, level)),
            }
        }
        Ok(section)
    }

    /// A key that is a word of kubeconfigs is named; of any other only the position, for it may be a misplaced secret.
    fn unknown(&self, index: usize, key: &str, level: &Level) -> Refusal {
        if let Some((word, _)) = LEVELS.iter().copied().flatten().find(|(word, _)| *word == key) {
            return Refusal::new(self.path_of(word), "does not belong here");
        }
        let known: Vec<&str> =
            level.iter().filter(|(_, rule)| !matches!(rule, Refuse(_))).map(|(word, _)| *word).collect();
        let why =
            format!("key {} of {} is unknown; known are {}", index + 1, self.entries.len(), known.join(", "));
        Refusal::new(self.path(), why)
    }

    /// Where the section stands.
    pub(super) fn path(&self) -> &str {
        if self.path.is_empty() { DOCUMENT } else { &self.path }
    }

    /// Where one of its fields stands.
    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of a field. `null` is the same as none, as for Kubernetes' own clients.
    fn value(&self, key: &str) -> Option<&'a Node> {
        self.entries
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, node)| node)
            .filter(|n| !matches!(n, Node::Null))
    }

    /// The text of a field.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, Refusal> {
        match self.value(key) {
            None => Ok(None),
            Some(Node::Text(text)) => Ok(Some(text)),
            Some(Node::Bool(_) | Node::Number) => {
                Err(Refusal::new(self.path_of(key), "must be text; put it in quotes"))
            }
            Some(_) => Err(Refusal::new(self.path_of(key), "must be text")),
        }
    }

    fn needed_text(&self, key: &str) -> Result<&'a str, Refusal> {
        match self.text(key)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(Refusal::new(self.path_of(key), "is missing")),
        }
    }

    fn fixed_text(&self, key: &str, expected: &str) -> Result<(), Refusal> {
        match self.text(key)? {
            Some(text) if text != expected => {
                Err(Refusal::new(self.path_of(key), format!("must be {expected}")))
            }
            _ => Ok(()),
        }
    }

    fn section(&self, key: &str, level: &Level) -> Result<Section<'a>, Refusal> {
        match self.value(key) {
            Some(Node::Map(entries)) => Section::judged(self.path_of(key), entries, level),
            Some(_) => Err(Refusal::new(self.path_of(key), "must be a mapping")),
            None => Err(Refusal::new(self.path_of(key), "is missing")),
        }
    }

    /// A list of named things: `[{name: …, <inner>: {…}}]`.
    fn list(&self, key: &str, outer: &Level, inner: (&str, &Level)) -> Result<Vec<Named<'a>>, Refusal> {
        let nodes = match self.value(key) {
            Some(Node::List(nodes)) => nodes.as_slice(),
            Some(_) => return Err(Refusal::new(self.path_of(key), "must be a list")),
            None => &[],
        };
        let mut list: Vec<Named<'a>> = vec![];
        for (index, node) in nodes.iter().enumerate() {
            let path = format!("{}[{index}]", self.path_of(key));
            let Node::Map(entries) = node else { return Err(Refusal::new(path, "must be a mapping")) };
            let entry = Section::judged(path, entries, outer)?;
            let name = entry.needed_text("name")?;
            if list.iter().any(|other| other.name == name) {
                return Err(Refusal::new(entry.path_of("name"), "is the name of an earlier entry too"));
            }
            list.push(Named { name, content: entry.section(inner.0, inner.1)? });
        }
        Ok(list)
    }
}

struct Named<'a> {
    name: &'a str,
    content: Section<'a>,
}

/// A kubeconfig all of whose fields have been judged.
pub(super) struct Kubeconfig<'a> {
    root: Section<'a>,
    clusters: Vec<Named<'a>>,
    contexts: Vec<Named<'a>>,
    users: Vec<Named<'a>>,
}

impl<'a> Kubeconfig<'a> {
    /// Judges every field of the document.
    pub(super) fn read(document: &'a Node) -> Result<Self, Refusal> {
        let Node::Map(entries) = document else {
            return Err(Refusal::new(DOCUMENT, "must be a mapping: a kubeconfig as kubectl writes it"));
        };
        let root = Section::judged(String::new(), entries, ROOT)?;
        root.fixed_text("apiVersion", "v1")?;
        root.fixed_text("kind", "Config")?;
        let clusters = root.list("clusters", NAMED_CLUSTER, ("cluster", CLUSTER))?;
        let contexts = root.list("contexts", NAMED_CONTEXT, ("context", CONTEXT))?;
        let users = root.list("users", NAMED_USER, ("user", USER))?;
        for cluster in &clusters {
            const INSECURE: &str = "insecure-skip-tls-verify";
            if !matches!(cluster.content.value(INSECURE), None | Some(Node::Bool(false))) {
                return Err(Refusal::new(
                    cluster.content.path_of(INSECURE),
                    "the server is always verified; use certificate-authority-data",
                ));
            }
        }
        Ok(Self { root, clusters, contexts, users })
    }

    /// The cluster and the user of the current context, or of the only one.
    pub(super) fn chosen(&self) -> Result<(Section<'a>, Section<'a>), Refusal> {
        const CURRENT: &str = "current-context";
        // `kubectl config unset` leaves an empty text.
        let current = self.root.text(CURRENT)?.filter(|name| !name.is_empty());
        let context = match (current, self.contexts.as_slice()) {
            (_, []) => {
                return Err(Refusal::new(
                    "contexts",
                    "is missing or empty; a context names cluster and user",
                ));
            }
            (None, [only]) => only,
            (None, _) => return Err(Refusal::new(CURRENT, "is missing, and there is more than one context")),
            (Some(name), contexts) => contexts
                .iter()
                .find(|context| context.name == name)
                .ok_or_else(|| Refusal::new(CURRENT, "names a context that is not there"))?,
        };
        let cluster = referred(&context.content, "cluster", &self.clusters)?;
        let user = referred(&context.content, "user", &self.users)?;
        Ok((cluster, user))
    }
}

fn referred<'a>(context: &Section<'a>, key: &str, list: &[Named<'a>]) -> Result<Section<'a>, Refusal> {
    let name = context.needed_text(key)?;
    list.iter()
        .find(|entry| entry.name == name)
        .map(|entry| entry.content.clone())
        .ok_or_else(|| Refusal::new(context.path_of(key), format!("names a {key} that is not there")))
}
