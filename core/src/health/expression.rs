//! CEL expressions over an object, within bounds.
//!
//! The interpreter knows no limits, and whoever writes an object decides how long its lists are. So an expression may
//! nest only so deep, and each round of its loops is paid for out of an allowance: what a round copies, for the
//! interpreter copies the fields that it reads.

use std::{
    collections::{BTreeMap, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kube_cel::{
    KubeCelExt,
    cel::{
        self, Context, ExecutionError, IdedExpr,
        common::ast::{CallExpr, EntryExpr, Expr, LiteralValue},
        extractors::Arguments,
        objects::{Key, Map},
        parser::Parser,
    },
};
use serde_json::Value;

use super::limits;

/// Deepest nesting of an expression.
const MAX_DEPTH: u16 = 64;
/// Deepest nesting of loops.
const MAX_LOOPS: usize = 3;
/// Longest list that `lists.range` makes.
const MAX_RANGE: i64 = 1024;
/// Allowance of all expressions of one object, in values copied: well under a second of work.
const ALLOWANCE: u64 = 1_000_000;
/// What a round of a loop costs that copies nothing.
const ROUND: u64 = 16;
/// What an expression sees.
const VARIABLES: [&str; 4] = ["object", "metadata", "spec", "status"];
/// Prefixes of functions, which look like variables.
const NAMESPACES: [&str; 5] = ["lists", "math", "optional", "sets", "strings"];
/// The function that takes from the allowance. No expression can name it: `@` is not CEL.
const PAY: &str = "@pay";

/// An expression, ready to run.
pub(super) struct Expression(IdedExpr);

/// Why an expression has no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The object is not such that it has one, for example because a field is missing.
    Object(String),
    /// The expression is wrong, or too expensive: it will hardly have one for another object.
    Expression(String),
}

impl Expression {
    /// Reads an expression; the error says what is wrong with it.
    pub(super) fn compile(source: &str) -> Result<Self, String> {
        limits::check(source)?;
        let parser = Parser::new().max_recursion_depth(limits::MAX_BRACKETS + 8);
        let mut root = guarded(|| parser.parse(source))?.map_err(|e| syntax_error(&e))?;
        prepare(&mut root, &mut Scopes::default(), 0)?;
        Ok(Self(root))
    }

    /// Its value.
    pub(super) fn evaluate(&self, bindings: &Bindings) -> Result<cel::Value, Failure> {
        let result = guarded(|| bindings.context.resolve(&self.0)).map_err(Failure::Expression)?;
        if bindings.allowance.load(Ordering::Relaxed) == 0 {
            return Err(Failure::Expression("it takes too long for an object of this size".into()));
        }
        result.map_err(|error| match error {
            ExecutionError::UndeclaredReference(name) => Failure::Expression(format!("{name} is not known")),
            ExecutionError::NoSuchKey(key) => Failure::Object(format!("no such key: {key}")),
            // Other errors print whole values.
            _ => Failure::Object("it cannot be applied to the object".into()),
        })
    }
}

/// Runs the interpreter. It has places where it panics instead of returning an error; one bad expression must not
/// take the health of everything else with it.
fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| "the interpreter gave up on it".to_owned())
}

fn syntax_error(errors: &cel::ParseErrors) -> String {
    // Without the lines of source that the whole error draws.
    errors.errors.first().map_or_else(
        || "it is not CEL".to_owned(),
        |e| {
            if e.pos.0 > 0 {
                format!("line {}, column {}: {}", e.pos.0, e.pos.1, e.msg)
            } else {
                e.msg.clone()
            }
        },
    )
}

/// Variables of the loops around a place, from the outermost.
#[derive(Default)]
struct Scopes {
    loops: Vec<[String; 2]>,
}

/// Refuses what cannot be run, and makes loops pay for their rounds.
fn prepare(expression: &mut IdedExpr, scopes: &mut Scopes, depth: u16) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("it is nested deeper than {MAX_DEPTH}"));
    }
    let depth = depth + 1;
    match &mut expression.expr {
        Expr::Literal(_) => Ok(()),
        Expr::Ident(name) => {
            let bound = scopes.loops.iter().flatten().any(|v| v == name);
            if bound || VARIABLES.contains(&name.as_str()) {
                Ok(())
            } else {
                Err(format!("{name} is not known; there are {}", VARIABLES.join(", ")))
            }
        }
        Expr::Call(call) => {
            match call.target.as_deref_mut() {
                Some(IdedExpr { expr: Expr::Ident(name), .. }) if NAMESPACES.contains(&name.as_str()) => {}
                Some(target) => prepare(target, scopes, depth)?,
                None => {}
            }
            call.args.iter_mut().try_for_each(|arg| prepare(arg, scopes, depth))
        }
        Expr::List(list) => list.elements.iter_mut().try_for_each(|e| prepare(e, scopes, depth)),
        Expr::Map(map) => map.entries.iter_mut().try_for_each(|entry| match &mut entry.expr {
            EntryExpr::MapEntry(e) => {
                prepare(&mut e.key, scopes, depth)?;
                prepare(&mut e.value, scopes, depth)
            }
            EntryExpr::StructField(_) => Err("it has a field outside of a message".to_owned()),
        }),
        Expr::Select(select) => prepare(&mut select.operand, scopes, depth),
        Expr::Comprehension(fold) => {
            prepare(&mut fold.iter_range, scopes, depth)?;
            prepare(&mut fold.accu_init, scopes, depth)?;
            let outer = scopes.loops.iter().map(|[variable, _]| variable.clone()).collect::<Vec<_>>();
            scopes.loops.push([fold.iter_var.clone(), fold.accu_var.clone()]);
            if scopes.loops.len() > MAX_LOOPS {
                return Err(format!("its loops are nested deeper than {MAX_LOOPS}"));
            }
            prepare(&mut fold.loop_cond, scopes, depth)?;
            prepare(&mut fold.loop_step, scopes, depth)?;
            prepare(&mut fold.result, scopes, depth)?;
            scopes.loops.pop();
            let mut read = Vec::new();
            names_in(&fold.loop_step, &mut read);
            let condition = std::mem::take(&mut fold.loop_cond);
            fold.loop_cond = paid(condition, &fold.accu_var, &outer, &read);
            Ok(())
        }
        Expr::Struct(_) => Err("messages cannot be made here".to_owned()),
        Expr::Unspecified => Err("a part of it is empty".to_owned()),
    }
}

/// The condition of a loop, which first pays for a round: for the variables of the object that it reads, by their name,
/// and for what has been gathered so far and the variables of loops around it, by their value.
fn paid(condition: IdedExpr, gathered: &str, outer: &[String], read: &[String]) -> IdedExpr {
    let expr = |expr| IdedExpr { id: 0, expr };
    let roots = read.iter().map(String::as_str).filter(|name| VARIABLES.contains(name)).collect::<Vec<_>>();
    let mut args =
        vec![condition, expr(Expr::Literal(LiteralValue::String(roots.join(" ").as_str().into())))];
    let by_value = outer.iter().filter(|variable| read.contains(variable)).map(String::as_str);
    args.extend(by_value.chain([gathered]).map(|name| expr(Expr::Ident(name.to_owned()))));
    expr(Expr::Call(CallExpr { func_name: PAY.to_owned(), target: None, args }))
}

fn names_in(expression: &IdedExpr, names: &mut Vec<String>) {
    match &expression.expr {
        Expr::Ident(name) if !names.contains(name) => names.push(name.clone()),
        Expr::Call(call) => {
            call.target.iter().for_each(|target| names_in(target, names));
            call.args.iter().for_each(|arg| names_in(arg, names));
        }
        Expr::List(list) => list.elements.iter().for_each(|e| names_in(e, names)),
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(e) = &entry.expr {
                    names_in(&e.key, names);
                    names_in(&e.value, names);
                }
            }
        }
        Expr::Select(select) => names_in(&select.operand, names),
        Expr::Comprehension(fold) => {
            for part in [&fold.iter_range, &fold.accu_init, &fold.loop_cond, &fold.loop_step, &fold.result] {
                names_in(part, names);
            }
        }
        _ => {}
    }
}

/// What the expressions of one object see, and what they may spend.
pub(super) struct Bindings {
    context: Context<'static>,
    allowance: Arc<AtomicU64>,
}

impl Bindings {
    pub(super) fn new(object: &Value) -> Self {
        let mut context = Context::default().with_all();
        let mut weights = BTreeMap::new();
        for name in VARIABLES {
            // Missing parts are empty, so that `has(status.x)` can be asked of an object that has no status yet.
            let part = if name == "object" { Some(object) } else { object.get(name) };
            let value = part
                .filter(|part| part.is_object())
                .map_or_else(|| cel::Value::from(HashMap::<Key, cel::Value>::new()), to_cel);
            weights.insert(name, weight(&value));
            context.add_variable_from_value(name, value);
        }
        let allowance = Arc::new(AtomicU64::new(ALLOWANCE));
        let purse = Arc::clone(&allowance);
        context.add_function(PAY, move |Arguments(args): Arguments| match args.as_slice() {
            [cel::Value::Bool(condition), cel::Value::String(roots), values @ ..] => {
                let roots: u64 = roots.split(' ').filter_map(|root| weights.get(root)).sum();
                let price = ROUND + roots + values.iter().map(weight).sum::<u64>();
                let left = purse.load(Ordering::Relaxed).saturating_sub(price);
                purse.store(left, Ordering::Relaxed);
                if left == 0 {
                    Err(ExecutionError::function_error(PAY, "nothing is left"))
                } else {
                    Ok(*condition)
                }
            }
            _ => Err(ExecutionError::NoSuchOverload),
        });
        // Instead of that of the library, which makes a list of any length.
        context.add_function("lists.range", |n: i64| match n {
            0..=MAX_RANGE => Ok(cel::Value::from((0..n).map(cel::Value::Int).collect::<Vec<_>>())),
            _ => Err(ExecutionError::function_error("lists.range", "out of range")),
        });
        Self { context, allowance }
    }
}

/// How much work it is to copy a value.
fn weight(value: &cel::Value) -> u64 {
    match value {
        cel::Value::List(list) => 1 + list.iter().map(weight).sum::<u64>(),
        cel::Value::Map(map) => 1 + map.map.values().map(|v| 1 + weight(v)).sum::<u64>(),
        cel::Value::String(text) => 1 + text.len() as u64 / 64,
        _ => 1,
    }
}

/// JSON as a value of CEL: whole numbers are `int`, as in Kubernetes, where the library would make positive ones `uint`.
fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(b) => cel::Value::Bool(*b),
        Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(int), _) => cel::Value::Int(int),
            (None, Some(uint)) => cel::Value::UInt(uint),
            (None, None) => n.as_f64().map_or(cel::Value::Null, cel::Value::Float),
        },
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(items) => cel::Value::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(fields) => cel::Value::Map(Map {
            map: Arc::new(
                fields.iter().map(|(k, v)| (Key::String(Arc::new(k.clone())), to_cel(v))).collect(),
            ),
        }),
    }
}
