//! Documents that are none, or whose parts do not fit together.

use super::{super::fixtures::*, Table};

pub(super) fn documents(table: &mut Table) {
    let whole = "kubeconfig";
    table.add("nothing", "", whole, "must be a mapping");
    table.add("a list", "[]", whole, "must be a mapping");
    table.add("a scalar", TOKEN, whole, "must be a mapping");
    table.add("not UTF-8", [b"token: ".as_slice(), &[0xff, 0xfe]].concat(), whole, "not UTF-8");
    table.add("UTF-16", valid().encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(), whole, "NUL");
    table.add("NUL", valid().replace(TOKEN, "canary-value\0"), whole, "NUL");
    table.add(
        "too large",
        format!("{}# {}\n", valid(), "x".repeat(64 * 1024)),
        whole,
        "larger than 65536 bytes",
    );
    table.add("broken YAML", "users: [canary-value", whole, "not valid YAML");
    table.add("broken JSON", "{\"users\": {\"canary-key\": \"canary-value\"", whole, "not valid YAML");
    table.add("two documents", format!("{0}---\n{0}", valid()), whole, "one document");
    table.add("an empty second document", format!("{}---\n", valid()), whole, "one document");
    table.add("an empty first document", format!("---\n---\n{}", valid()), whole, "one document");
    table.add("a broken second document", format!("{}---\n[canary-value", valid()), whole, "one document");
    table.add("text after the end", format!("{}...\n[canary-value\n", valid()), whole, "not valid YAML");
    table.add("the same key twice", format!("{}kind: Config\n", valid()), whole, "same key twice");
    table.add(
        "the same key twice in JSON",
        "{\"canary-key\": 1, \"canary-key\": 2}",
        whole,
        "same key twice",
    );
    table.edit("a second token", (TOKEN, &format!("a\n    token: {TOKEN}")), whole, "same key twice");
    table.add("deep lists", "[".repeat(60_000), whole, "not valid YAML");
    table.add("deep mappings", "{a: ".repeat(16_000), whole, "not valid YAML");
    table.add("deep lists of lines", "- ".repeat(30_000), whole, "too deeply");
    table.add(
        "deep extensions",
        format!("extensions: {}{}", "[".repeat(20), "]".repeat(20)),
        whole,
        "too deeply",
    );
    table.add("many values", format!("extensions: [{}]", "0,".repeat(20_000)), whole, "too many values");
    table.add("a billion laughs", billion_laughs(), whole, "anchors and aliases");
    table.edit("an anchor", ("cluster: main", "cluster: &a main"), whole, "anchors and aliases");
    table.add("an alias without anchor", "clusters: *canary", whole, "anchors and aliases");
    table.add(
        "a merge key",
        "users:\n- name: a\n  user:\n    <<: {token: canary-value}\n",
        whole,
        "merge keys",
    );
    table.add("a key that is a list", "? [canary-key]\n: canary-value\n", whole, "not valid YAML");
    table.add("an unknown tag", "!include /etc/passwd", whole, "must be a mapping");
}

fn billion_laughs() -> String {
    let mut bomb = "extensions:\n- &l0 [lol]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*l{}", level - 1); 10].join(", ");
        bomb.extend([format!("- &l{level} [{aliases}]\n")]);
    }
    bomb
}

pub(super) fn structure(table: &mut Table) {
    let server = "clusters[0].cluster.server";
    table.cluster("no server", &cluster().replace("server:", "disable-compression:"), server, "is missing");
    table.cluster("a server that is a list", "server: [canary-value]", server, "must be text");
    table.edit(
        "another apiVersion",
        ("apiVersion: v1", "apiVersion: canary-value"),
        "apiVersion",
        "must be v1",
    );
    table.edit("another kind", ("kind: Config", "kind: Pod"), "kind", "must be Config");
    table.edit("an unknown key", ("preferences", "canary-key"), "kubeconfig", "key 3 of 7 is unknown");
    table.edit("a misplaced key", ("preferences: {}", "exec: {}"), "exec", "does not belong here");
    table.edit(
        "an unknown key of a context",
        ("namespace", "canary-key"),
        "contexts[0].context",
        "key 3 of 3",
    );
    table.edit(
        "an unknown key of an entry",
        ("- name: main\n  cluster", "- canary-key: main\n  cluster"),
        "clusters[0]",
        "key 1 of 2",
    );
    table.edit(
        "no context of that name",
        ("current-context: main", "current-context: canary-name"),
        "current-context",
        "not there",
    );
    table.edit(
        "a current context that is a number",
        ("current-context: main", "current-context: 1"),
        "current-context",
        "in quotes",
    );
    table.edit(
        "no cluster of that name",
        ("cluster: main", "cluster: canary-name"),
        "contexts[0].context.cluster",
        "not there",
    );
    table.edit(
        "no user of that name",
        ("user: main", "user: canary-name"),
        "contexts[0].context.user",
        "not there",
    );
    table.edit("a context without user", ("    user: main\n", ""), "contexts[0].context.user", "is missing");
    table.edit("an entry without name", ("- name: main\n  user", "- user"), "users[0].name", "is missing");
    table.edit(
        "an entry that is text",
        ("users:\n- name: main\n  user:\n    token", "users:\n- canary-name\n- token"),
        "users[0]",
        "must be a mapping",
    );
    table.edit(
        "users that are a mapping",
        ("users:\n- name: main\n  user:\n    token", "users:\n  token"),
        "users",
        "must be a list",
    );
    table.edit("a user that is text", ("user:\n    token: ", "user: "), "users[0].user", "must be a mapping");
    let second = "- name: other\n  context: {cluster: main, user: main}\n";
    let two = valid()
        .replace("current-context: main\n", "")
        .replace("contexts:\n", &format!("contexts:\n{second}"));
    table.add("two contexts, none current", two, "current-context", "more than one context");
    table.add(
        "the same cluster twice",
        valid().replace("clusters:\n", "clusters:\n- {name: main, cluster: {}}\n"),
        "clusters[1].name",
        "earlier entry",
    );
    table.add(
        "the same user twice",
        format!("{}- name: main\n  user: {{}}\n", valid()),
        "users[1].name",
        "earlier entry",
    );
    table.add(
        "the same context twice",
        valid().replace("contexts:\n", "contexts:\n- {name: main, context: {}}\n"),
        "contexts[1].name",
        "earlier entry",
    );
    table.add(
        "no contexts",
        "apiVersion: v1\nkind: Config\nclusters: null\ncontexts: null\nusers: null\n",
        "contexts",
        "missing or empty",
    );
}
