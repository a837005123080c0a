//! Where settings come from: a flag goes before its environment variable, that before the config file, that before the
//! default.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches, parser::ValueSource};
use serde_json::{Map, Value};

/// The argument that names the config file. Commands that have it take their settings from all sources.
const CONFIG: &str = "config";

/// Where a setting was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nowhere: it is the default.
    Default,
    /// In the config file.
    File,
    /// In an environment variable.
    Environment,
    /// On the command line.
    Flag,
}

impl Source {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// A setting as it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name, as a flag.
    pub flag: String,
    /// Its value, as it was written.
    pub value: String,
    /// Where it was found.
    pub source: Source,
}

/// A parsed command line.
pub struct Parsed<C> {
    /// The command.
    pub cli: C,
    /// The settings of a command that has a config file, in the order of its flags.
    pub settings: Vec<Setting>,
}

/// Parses a command line. An error of clap's knows how it is told, and is `Ok(Err(…))`.
pub fn parse<C: CommandFactory + FromArgMatches>(
    line: impl IntoIterator<Item = OsString>,
) -> anyhow::Result<Result<Parsed<C>, clap::Error>> {
    let line: Vec<OsString> = line.into_iter().collect();
    let command = with_environment(C::command());
    let lenient = command.clone().ignore_errors(true).try_get_matches_from(&line).ok();
    let file = lenient.as_ref().and_then(|matches| config_file(&command, matches));
    let parse = |command: Command| command.try_get_matches_from(&line);
    let Some(file) = file else {
        return Ok(parse(command.clone()).and_then(|matches| parsed(&command, &matches, None)));
    };
    let values = read(&file)?;
    let with_file = with_defaults(command.clone(), &values).with_context(|| in_file(&file))?;
    let matches = match parse(with_file) {
        Ok(matches) => matches,
        // Without the file it would do: then the file is to blame.
        Err(error) if parse(command.clone()).is_ok() => bail!("{}: {}", in_file(&file), plain(&error)),
        Err(error) => return Ok(Err(error)),
    };
    Ok(parsed(&command, &matches, Some(&values)))
}

/// Gives each flag of the commands with a config file its environment variable.
pub fn with_environment(command: Command) -> Command {
    let command = command.mut_subcommands(with_environment);
    if !has_config(&command) {
        return command;
    }
    command.mut_args(|arg| {
        let variable = arg.get_long().filter(|long| *long != "help").map(variable_of);
        match variable {
            Some(variable) => arg.env(variable),
            None => arg,
        }
    })
}

/// The environment variable of a flag.
pub fn variable_of(flag: &str) -> String {
    format!("KANTOR_{}", flag.replace('-', "_").to_uppercase())
}

/// The key of a flag in the config file.
pub fn key_of(flag: &str) -> String {
    let mut words = flag.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |key, word| {
        let mut letters = word.chars();
        let head = letters.next().map(|c| c.to_ascii_uppercase());
        key + &head.into_iter().chain(letters).collect::<String>()
    })
}

fn has_config(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_long() == Some(CONFIG))
}

/// Flags that can stand in the config file.
pub fn settings_of(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| arg.get_long().is_some_and(|long| long != CONFIG && long != "help"))
}

fn config_file(command: &Command, matches: &ArgMatches) -> Option<PathBuf> {
    let (command, matches) = chosen(command, matches);
    has_config(command).then(|| matches.get_one::<PathBuf>(CONFIG).cloned()).flatten()
}

/// The innermost command of a command line.
fn chosen<'a>(command: &'a Command, matches: &'a ArgMatches) -> (&'a Command, &'a ArgMatches) {
    match matches.subcommand() {
        Some((name, below)) => match command.find_subcommand(name) {
            Some(command) => chosen(command, below),
            None => (command, matches),
        },
        None => (command, matches),
    }
}

fn in_file(file: &Path) -> String {
    format!("the config file {}", file.display())
}

/// What clap says, without how the command is used.
fn plain(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    first.trim_start_matches("error: ").to_owned()
}

fn read(file: &Path) -> anyhow::Result<Map<String, Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", in_file(file)))?;
    let value: Option<Value> = serde_saphyr::from_str(&text)
        .map_err(|error| anyhow::anyhow!("{} is not YAML: {error}", in_file(file)))?;
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(values)) => Ok(values),
        Some(_) => bail!("{} has to hold keys and values, such as planeQps: 100", in_file(file)),
    }
}

/// The values of the file become the defaults of the flags: then all else goes before them.
fn with_defaults(command: Command, values: &Map<String, Value>) -> anyhow::Result<Command> {
    let mut result = Ok(());
    let command = command.mut_subcommands(|below| {
        if !has_config(&below) {
            return match with_defaults(below.clone(), values) {
                Ok(below) => below,
                Err(error) => {
                    result = Err(error);
                    below
                }
            };
        }
        let mut below = below;
        for (key, value) in values {
            match (id_of(&below, key), texts(value)) {
                (Ok(id), Ok(texts)) => below = below.mut_arg(id, |arg| arg.default_values(texts)),
                (Err(error), _) => result = Err(error),
                (_, Err(what)) => result = Err(anyhow::anyhow!("{key}: expected {what}")),
            }
        }
        below
    });
    result.map(|()| command)
}

fn id_of(command: &Command, key: &str) -> anyhow::Result<String> {
    let keys: Vec<(String, String)> = settings_of(command)
        .filter_map(|arg| Some((key_of(arg.get_long()?), arg.get_id().to_string())))
        .collect();
    if let Some((_, id)) = keys.iter().find(|(known, _)| known == key) {
        return Ok(id.clone());
    }
    let letters =
        |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    match keys.iter().find(|(known, _)| letters(known) == letters(key)) {
        Some((known, _)) => bail!("there is no key {key}; it is written {known}"),
        None => bail!("there is no key {key}; kantor controller --help lists the flags, which are the keys"),
    }
}

/// A value as it would be written on the command line.
fn texts(value: &Value) -> Result<Vec<String>, &'static str> {
    const SCALAR: &str = "a text, a number, true or false, or a list of them";
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Bool(_) | Value::Number(_) => Ok(vec![value.to_string()]),
        Value::Array(values) => {
            let scalar = |value: &Value| match value {
                Value::Array(_) => Err(SCALAR),
                value => texts(value).map(|texts| texts.concat()),
            };
            values.iter().map(scalar).collect()
        }
        Value::Null | Value::Object(_) => Err(SCALAR),
    }
}

fn parsed<C: FromArgMatches>(
    command: &Command,
    matches: &ArgMatches,
    file: Option<&Map<String, Value>>,
) -> Result<Parsed<C>, clap::Error> {
    let cli = C::from_arg_matches(matches)?;
    let (command, matches) = chosen(command, matches);
    let settings =
        if has_config(command) { settings_of(command) } else { return Ok(Parsed { cli, settings: vec![] }) };
    let settings = settings.filter_map(|arg| {
        let flag = arg.get_long()?.to_owned();
        let id = arg.get_id().as_str();
        let values: Vec<_> = matches.get_raw(id).into_iter().flatten().map(|v| v.to_string_lossy()).collect();
        let source = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => Source::Flag,
            Some(ValueSource::EnvVariable) => Source::Environment,
            _ if file.is_some_and(|file| file.contains_key(&key_of(&flag))) => Source::File,
            _ => Source::Default,
        };
        Some(Setting { flag, value: values.join(","), source })
    });
    Ok(Parsed { cli, settings: settings.collect() })
}

#[cfg(test)]
mod tests;
