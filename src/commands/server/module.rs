//! Modules that the server has loaded.

use crate::args::{ArgWriter, ToArg, ToArgs};
use crate::commands::parts::{Named, Owned, parts_to_args};
use crate::commands::record::record;

record! {
    /// A module: the reply of [`module_list`](super::ServerCommands::module_list).
    ModuleInfo: "a module" {
        /// Its name.
        "name" name: String,
        /// Its version.
        "ver" version: i64,
        /// The file that it was loaded from. Since 7.0.
        "path" path: Option<String>,
        /// The arguments that it was loaded with. Since 7.0.
        "args" args: Vec<String>,
    }
}

/// Settings and arguments for a module: see [`module_loadex`](super::ServerCommands::module_loadex).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct ModuleOptions {
    settings: Vec<Setting>,
    arguments: Vec<Owned>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Setting {
    name: Owned,
    value: Owned,
}

impl ToArgs for Setting {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        ("CONFIG", &self.name, &self.value).write_args(out);
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        3
    }
}

impl ModuleOptions {
    /// Nothing yet.
    pub fn new() -> Self {
        ModuleOptions::default()
    }

    /// One of the module's settings, and its value (CONFIG).
    pub fn config(mut self, name: impl ToArg, value: impl ToArg) -> Self {
        self.settings.push(Setting { name: Owned::new(name), value: Owned::new(value) });
        self
    }

    /// An argument more for the module (ARGS).
    pub fn arg(mut self, argument: impl ToArg) -> Self {
        self.arguments.push(Owned::new(argument));
        self
    }

    fn parts(&self) -> impl ToArgs {
        (&self.settings, Named("ARGS", (!self.arguments.is_empty()).then_some(&self.arguments)))
    }
}

parts_to_args!(ModuleOptions);
