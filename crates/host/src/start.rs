//! The preparation of a start: the input bound to the entry's parameters, attachments and authority.

use crate::{
    grant,
    host::Host,
    input::{Input, InputPart, ReadPart},
    missing,
    obstacle::Obstacle,
    session::Session,
};
use llm_do_core::{
    attachment::Attachment,
    authority::{Access, Authority, Extent, Place, VirtualPath},
    origin::{Origin, Origins},
    worker::{BoundPath, INPUT},
};
use llm_do_program::{
    BindError,
    signature::{self, Given, InputError},
    source::Kind,
};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Input, attachments and authority with which a run starts.
pub struct Prepared {
    /// The input, complete and valid.
    pub input: Value,
    /// The origins of the parts of the input.
    pub origins: Origins,
    /// The files that the operator attaches.
    pub attachments: Vec<Attachment>,
    /// The authority of the entry's caller.
    pub authority: Authority,
}

impl<H: Host> Session<H> {
    /// Returns the names of the entry's arguments that come from those parts of an input that were read from a file.
    fn read_names(&self, input: &Input, which: impl Fn(&ReadPart) -> bool) -> Vec<String> {
        let signature = &self.entry().signature;
        let message = || signature.message.as_deref().unwrap_or(INPUT).to_owned();
        let is_declared = |name: &String| {
            let properties = signature.schema.value().get("properties");
            signature.declared || properties.is_some_and(|all| all.get(name).is_some())
        };
        let names =
            input.read.iter().filter(|read| which(read)).flat_map(|ReadPart { part, .. }| match part {
                InputPart::Parameter(name) if is_declared(name) => vec![name.clone()],
                InputPart::Parameter(_) => vec![INPUT.to_owned()],
                InputPart::Message => vec![message()],
                InputPart::Json => match &input.json {
                    Some(Value::Object(map)) if signature.declared || map.contains_key(INPUT) => {
                        map.keys().cloned().collect()
                    }
                    _ => vec![message()],
                },
            });
        names.collect()
    }

    /// Returns true if the operator has granted a place.
    fn grants_place(&self, place: &Place, access: Access) -> bool {
        let granted = grant::places(&self.opened().grants);
        granted.iter().any(|extent| place.is_within(&extent.place) && extent.access >= access)
    }

    /// Returns the origins of a complete input.
    fn origins_of(&self, input: &Input, bound: &[BoundPath]) -> Origins {
        let mut names = self.read_names(input, |read| read.untrusted);
        // The value of a path is the name of its mount by now.
        names.retain(|name| !bound.iter().any(|bound| *bound.parameter == **name));
        names.iter().fold(Origins::TRUSTED, |origins, name| {
            let at = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            origins.with(at, Origin::Untrusted)
        })
    }

    /// Checks that the paths of an input lie below the required folder (`RunOptions::paths_below`), with links
    /// resolved.
    fn admit_paths(&self, given: &Value, bound: &[BoundPath]) -> Result<(), Obstacle> {
        let Some(folder) = &self.opened().options.paths_below else { return Ok(()) };
        let root = self.host().real(folder).ok();
        let beyond = bound.iter().find_map(|BoundPath { parameter, place, .. }| {
            let path = given.get(&**parameter)?.as_str()?;
            let is_below = root.as_ref().is_some_and(|root| place.is_within(root));
            (!is_below).then_some((parameter, path))
        });
        let Some((parameter, path)) = beyond else { return Ok(()) };
        let message = format!("`{parameter}`: `{path}` leads out of the folder of this run");
        let signature = signature::show(&self.entry().id, &self.entry().signature);
        Err(Obstacle::Input(InputError { message, signature }))
    }

    /// Checks an input and completes it, and reads the attachments.
    ///
    /// # Errors
    /// The input doesn't fit, a grant is missing, or a file can't be attached.
    pub fn prepare(&self, input: &Input, attach: bool) -> Result<Prepared, H::Problem> {
        let (entry, program) = (self.entry(), self.program());
        let given = Given {
            message: input.message.as_deref(),
            json: input.json.as_ref(),
            parameters: &input.parameters,
        };
        let value = signature::input_value(&entry.id, &entry.signature, given).map_err(Obstacle::Input)?;
        let here = self.host().here().unwrap_or_else(|| program.root());
        let mut places: Vec<Extent> = grant::places(&self.opened().grants);
        let mut complete = value.clone();
        let located = self.located_in_view(input, here, &value)?;
        let bind = |complete: &mut Value, places: &[Extent]| program.bind(complete, here, places, &located);
        let bound = match bind(&mut complete, &places) {
            Err(BindError::Beyond(required)) => {
                let missing = required.iter().map(missing::place).collect();
                let obtained = missing::obtain(&**self.host(), self.loaded().identity(), missing)?;
                places.extend(grant::places(&obtained));
                complete = value.clone();
                bind(&mut complete, &places)
            }
            bound => bound,
        };
        let mut bound = bound.map_err(unbound)?;
        self.admit_paths(&value, &bound)?;
        let untrusted = self.read_names(input, |read| read.untrusted);
        for path in &mut bound {
            path.untrusted = untrusted.iter().any(|name| *name == *path.parameter);
        }
        let (value, origins) = (complete, self.origins_of(input, &bound));
        signature::validate_input(&entry.id, &entry.signature, &value).map_err(Obstacle::Input)?;
        let authority = self.beginning(&places, &bound, self.opened().options.client.is_some());
        let attachments = match attach {
            true => self.attached(&input.attachments, &input.contents)?,
            false => Vec::new(),
        };
        Ok(Prepared { input: value, origins, attachments, authority })
    }
    /// Reads the files at `paths`, and adds `contents`, if the entry accepts them.
    fn attached(&self, paths: &[PathBuf], contents: &[Attachment]) -> Result<Vec<Attachment>, Obstacle> {
        let entry = self.entry();
        let named = || contents.first().map(|content| PathBuf::from(&*content.file.name));
        let first = paths.first().cloned().or_else(named);
        if let (Some(path), true) = (&first, entry.code.is_some()) {
            let reason = format!(
                "`{}` is Python code, and attachments are for models: give it the path as an input instead",
                entry.id
            );
            return Err(Obstacle::Attachment { path: path.clone(), reason });
        }
        let read = |path: &PathBuf| {
            let read = self.host().attachment(path, entry);
            read.map_err(|reason| Obstacle::Attachment { path: path.clone(), reason })
        };
        let mut attachments: Vec<Attachment> = paths.iter().map(read).collect::<Result<_, _>>()?;
        attachments.extend_from_slice(contents);
        let sizes: Vec<(&str, u64)> =
            attachments.iter().map(|given| (&*given.file.name, given.file.data.len() as u64)).collect();
        entry
            .attachments
            .admits(&format!("`{}`", entry.id), &sizes)
            .map_err(|reason| Obstacle::Attachment { path: first.unwrap_or_default(), reason })?;
        Ok(attachments)
    }

    /// Locates the paths that an input names in the view of the entry, and that the operator has not typed: those of a
    /// client, and those that were read from a file. They grant nothing. They must be places in that view, files that
    /// the host hands over, or, for paths from a file, places that the operator has granted.
    ///
    /// # Errors
    /// The entry does not see a path with that access.
    fn located_in_view(
        &self,
        input: &Input,
        here: &Place,
        given: &Value,
    ) -> Result<Vec<BoundPath>, Obstacle> {
        let real = |path: &Path| self.host().real(path);
        let mut located = Vec::new();
        let by_client = self.options().client.is_some();
        let read = self.read_names(input, |_| true);
        let entry = self.entry();
        let wrong = |name: &str, why: &dyn std::fmt::Display| {
            let message = format!("`{name}`: {why}");
            Obstacle::Input(InputError { message, signature: signature::show(&entry.id, &entry.signature) })
        };
        for parameter in &entry.signature.parameters {
            let (name, Some(access)) = (&parameter.name, parameter.path) else { continue };
            if !by_client && !read.iter().any(|known| *known == **name) {
                continue;
            }
            let Some(path) = given.get(&**name).and_then(Value::as_str) else { continue };
            let as_given = match by_client {
                true => None,
                false => real(&Path::new(here.as_str()).join(path)).ok(),
            };
            let is_handed = |file: &&PathBuf| {
                file.as_os_str() == path || as_given.is_some() && real(file).ok() == as_given
            };
            if let Some(file) = input.handed.iter().find(is_handed) {
                if access == Access::Write {
                    return Err(wrong(name, &"the worker writes there, and this file is only read"));
                }
                let place = real(file).map_err(|error| wrong(name, &error))?;
                let parameter = Arc::clone(name);
                located.push(BoundPath { parameter, place, access, mounts: Vec::new(), untrusted: false });
                continue;
            }
            let bound = match by_client {
                true => self
                    .client_view()
                    .map_err(|refusal| refusal.to_string())
                    .and_then(|view| self.bound_in_view(&view, name, path, access)),
                false => self.bound_for_file(name, path, as_given, access),
            };
            located.push(bound.map_err(|why| wrong(name, &why))?);
        }
        Ok(located)
    }

    /// Binds a path that was read from a file: as the entry names it, or relative to the current directory
    /// (`as_given`).
    fn bound_for_file(
        &self,
        name: &Arc<str>,
        path: &str,
        as_given: Option<Place>,
        access: Access,
    ) -> Result<BoundPath, String> {
        let view = self.entry().own_authority(&self.authority()).map_err(|refusal| refusal.to_string())?;
        let refused = match self.bound_in_view(&view, name, path, access) {
            Ok(bound) => return Ok(bound),
            Err(refused) => refused,
        };
        let refused = format!("{refused}, and a file can't grant `{path}`");
        let place = as_given.ok_or_else(|| refused.clone())?;
        if let Some(seen) = view.path_to(&place, access) {
            return self.bound_in_view(&view, name, seen.as_str(), access);
        }
        match self.grants_place(&place, access) {
            true => Ok(BoundPath {
                parameter: Arc::clone(name),
                place,
                access,
                mounts: Vec::new(),
                untrusted: false,
            }),
            false => Err(refused),
        }
    }

    /// Binds a path of a view to a parameter, with the rules of the mounts that show it.
    fn bound_in_view(
        &self,
        view: &Authority,
        name: &Arc<str>,
        path: &str,
        access: Access,
    ) -> Result<BoundPath, String> {
        let mut at = view.locate(path, access).map_err(|refusal| refusal.to_string())?;
        let hidden = || format!("`{path}` does not exist here");
        let real = self.program().tree().locate(at.place().as_str()).map_err(|_| hidden())?;
        let rest = real.place.rest(&at.base).map(str::to_owned).ok_or_else(hidden)?;
        match real.kind {
            None if access == Access::Read => return Err(hidden()),
            Some(Kind::File) => at.admits_file(&rest),
            _ => at.admits(&rest),
        }
        .map_err(|refusal| refusal.to_string())?;
        // The mounts over a part of it are those at the place that links lead to.
        at.path = at.virtual_of(&rest);
        at.rest = rest;
        let mounts = view.view().handing(&at, &VirtualPath::root().join(name));
        let parameter = Arc::clone(name);
        Ok(BoundPath { parameter, place: real.place, access, mounts, untrusted: false })
    }
}

/// Returns the obstacle for an input that can't be bound.
fn unbound(error: BindError) -> Obstacle {
    match error {
        BindError::Input(error) => Obstacle::Input(error),
        BindError::Beyond(required) => Obstacle::Grants(required.iter().map(missing::place).collect()),
    }
}
