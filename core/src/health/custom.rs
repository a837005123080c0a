//! Rules that a data plane brings for kinds of its own.

use std::collections::BTreeMap;

use kantor_api::data_plane::HealthCheck;
use kube_cel::cel;
use serde_json::Value;

use super::{
    Health, Verdict,
    expression::{Bindings, Expression, Failure},
};

/// Custom rules of a data plane, compiled. Without any by default.
#[derive(Default)]
pub struct Checks {
    /// By group and kind; of a check that cannot be used, what is wrong with it.
    rules: BTreeMap<(String, String), Result<Rule, String>>,
}

/// The expressions for one kind.
struct Rule {
    /// In the order in which they are asked.
    roles: Vec<(&'static str, Health, Expression)>,
    message: Option<Expression>,
}

impl Checks {
    /// Compiles `checks`. One that does not compile makes the health of its kind unknown, and no other.
    pub fn compile(checks: &[HealthCheck]) -> Self {
        let rules =
            checks.iter().map(|check| ((check.group.clone(), check.kind.clone()), Rule::compile(check)));
        Self { rules: rules.collect() }
    }

    /// What the rule for the kind says of `object`, if there is one.
    pub(super) fn verdict(&self, group: &str, kind: &str, object: &Value) -> Option<Verdict> {
        if self.rules.is_empty() {
            return None;
        }
        Some(match self.rules.get(&(group.to_owned(), kind.to_owned()))? {
            Ok(rule) => rule.verdict(object),
            Err(wrong) => Verdict::unknown(wrong),
        })
    }
}

impl Rule {
    fn compile(check: &HealthCheck) -> Result<Self, String> {
        let compile = |role: &str, source: &str| {
            Expression::compile(source)
                .map_err(|why| format!("the health check of {} cannot be used: {role}: {why}", check.kind))
        };
        let sources = [
            ("suspended", Health::Suspended, check.suspended.as_deref()),
            ("degraded", Health::Degraded, check.degraded.as_deref()),
            ("progressing", Health::Progressing, check.progressing.as_deref()),
            ("healthy", Health::Healthy, Some(check.healthy.as_str())),
        ];
        let mut roles = Vec::new();
        for (role, health, source) in sources {
            if let Some(source) = source {
                roles.push((role, health, compile(role, source)?));
            }
        }
        let message = check.message.as_deref().map(|source| compile("message", source)).transpose()?;
        Ok(Self { roles, message })
    }

    fn verdict(&self, object: &Value) -> Verdict {
        let bindings = Bindings::new(object);
        let mut unmet = None;
        for (role, health, expression) in &self.roles {
            match expression.evaluate(&bindings) {
                Ok(cel::Value::Bool(false)) => {}
                Ok(cel::Value::Bool(true)) if *health == Health::Healthy => return Verdict::healthy(),
                Ok(cel::Value::Bool(true)) => {
                    let why = format!("the expression `{role}` of the health check is true");
                    return Verdict::new(*health, self.say(&bindings).unwrap_or(why));
                }
                Ok(other) => {
                    return Verdict::unknown(format!(
                        "{role}: its value is a {}, not a bool",
                        other.type_of()
                    ));
                }
                Err(Failure::Expression(why)) => return Verdict::unknown(format!("{role}: {why}")),
                // The last to fail is `healthy`, about which whoever waits wants to know.
                Err(Failure::Object(why)) => unmet = Some(format!("{role}: {why}")),
            }
        }
        let why = self.say(&bindings).or(unmet);
        Verdict::progressing(why.unwrap_or_else(|| "no expression of the health check is true".to_owned()))
    }

    /// The text of `message`. A message that fails says less; it does not change the health.
    fn say(&self, bindings: &Bindings) -> Option<String> {
        match self.message.as_ref()?.evaluate(bindings) {
            Ok(cel::Value::String(text)) if !text.trim().is_empty() => Some(text.to_string()),
            Ok(cel::Value::String(_)) | Err(Failure::Object(_)) => None,
            Ok(other) => Some(format!("message: its value is a {}, not a string", other.type_of())),
            Err(Failure::Expression(why)) => Some(format!("message: {why}")),
        }
    }
}
