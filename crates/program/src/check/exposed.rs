//! The Python tools that the workers of a program have.

use crate::{
    code::{CodeProblemKind, CodeReader, CodeTool, ModuleTools},
    effective::Effective,
};
use llm_do_core::{
    function::tool_name,
    worker::{CodePackage, ToolLevel, ToolModule},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// The tools of all levels of a program. Each level is inspected once.
#[derive(Default)]
pub(crate) struct Exposed {
    levels: HashMap<Key, Vec<ModuleTools>>,
    /// The tools of each list of levels, by its address, which the list keeps; `None` if not all of them are known.
    /// Workers of one folder share a list.
    lists: HashMap<usize, (Arc<[ToolLevel]>, Option<Tools>)>,
}

/// The tools of a worker without Python.
static NO_TOOLS: Tools = Tools::new();

/// The identity of a level: its package and modules. Its name depends on the worker.
pub(super) type Key = (Arc<CodePackage>, Vec<ToolModule>);

/// Python tools by the names that a model sees, the nearest of each.
pub(crate) type Tools = BTreeMap<String, Tool>;

/// A Python tool and its level.
pub(crate) struct Tool {
    pub(super) level: ToolLevel,
    pub(crate) code: CodeTool,
}

pub(super) fn key(level: &ToolLevel) -> Key {
    (Arc::clone(&level.package), level.modules.clone())
}

impl Exposed {
    /// Inspects the levels of these workers. Without a reader, only the tools of workers without Python are known.
    pub(super) fn add<'a>(
        &mut self,
        workers: impl Iterator<Item = &'a Effective>,
        reader: Option<&dyn CodeReader>,
    ) {
        let Some(reader) = reader else { return };
        for levels in workers.map(|effective| &effective.definition.tools) {
            if levels.is_empty() || self.lists.contains_key(&levels.as_ptr().addr()) {
                continue;
            }
            for level in levels.iter() {
                self.levels.entry(key(level)).or_insert_with(|| reader.tools(level));
            }
            let tools = self.aggregated(levels);
            self.lists.insert(levels.as_ptr().addr(), (Arc::clone(levels), tools));
        }
    }

    fn aggregated(&self, levels: &[ToolLevel]) -> Option<Tools> {
        let mut tools = Tools::new();
        for level in levels {
            for module in self.of(level)? {
                if module.problem.as_ref().is_some_and(|problem| problem.kind != CodeProblemKind::Nothing) {
                    return None;
                }
                for code in &module.tools {
                    let tool = || Tool { level: level.clone(), code: code.clone() };
                    tools.entry(tool_name(&code.name)).or_insert_with(tool);
                }
            }
        }
        Some(tools)
    }

    /// Returns the tools of the modules of a level, if it was inspected.
    pub(super) fn of(&self, level: &ToolLevel) -> Option<&[ModuleTools]> {
        self.levels.get(&key(level)).map(Vec::as_slice)
    }

    /// Returns the Python tools of a worker, or `None` if not all of them are known.
    pub(crate) fn tools(&self, effective: &Effective) -> Option<&Tools> {
        match &effective.definition.tools {
            levels if levels.is_empty() => Some(&NO_TOOLS),
            levels => self.lists.get(&levels.as_ptr().addr())?.1.as_ref(),
        }
    }
}
