//! The origins of the words of a call, and their consequences for it (`docs/reference/origins.md`).

use super::{
    Admitted, Call, Engine,
    touched::{Touched, not_own},
};
use crate::{
    authority::{Access, Authority, Located, Origin as MountOrigin, Place},
    call_path::CallPath,
    function::{Effects, FunctionMeta, Implementation, OutputSchema, Touch},
    gate::{Gate, Query, Verdict},
    origin::{Content, ContentKind, Origin, Origins, ResultOrigin, Steering, Trail, cleaned, echoed},
    outcome::{End, Ending, Halt, Outcome},
    results::show_failure,
    risk::Risk,
    rule::Rule,
};
use serde_json::Value;
use std::sync::Arc;

impl Engine {
    /// The origins of the arguments of a call.
    pub(super) fn argument_origins(&self, call: &Call<'_>) -> Origins {
        let recorded = match call.frame.is_code() {
            true => self.host.driver.recorded_origins(&call.path),
            false => None,
        };
        recorded.unwrap_or_else(|| match call.frame.worker() {
            None if call.path == CallPath::root() => call.frame.input_origins().clone(),
            // The user has made it in the middle of the run.
            None => Origins::whole(call.frame.user()),
            Some(_) => call.frame.trail().emits(&call.input),
        })
    }

    /// The trail of a composite: the contents that its caller has received, and its own arguments. Arguments that its
    /// author declares untrusted count neither as words of the operator nor as words of the program.
    pub(crate) fn trail_into(&self, call: &Call<'_>, input: &Arc<Value>, origins: &Origins) -> Trail {
        let declared = match &call.function.body {
            Implementation::Composite(body) => body.declared_origins(input),
            Implementation::Leaf(_) => Origins::TRUSTED,
        };
        let kind = match call.frame.worker() {
            None => ContentKind::Input,
            Some(_) => ContentKind::Arguments,
        };
        call.frame.trail().clone().with(Content {
            kind,
            call: call.path.clone(),
            function: Arc::clone(&call.function.meta.name),
            value: Arc::clone(input),
            origins: origins.clone().and(declared),
            source: None,
        })
    }

    /// The origins of a value that a leaf returned. `known` are the origins that the leaf states itself; `fits` is true
    /// if the value fits the declared schema. Called within the leaf's step.
    pub(super) fn leaf_origins(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        known: Option<Origins>,
        value: &Value,
        fits: bool,
    ) -> Origins {
        let meta = &call.function.meta;
        let places = || match admitted.reads_untrusted_place() {
            true => Origins::untrusted(),
            false => Origins::TRUSTED,
        };
        let origins = Origins::stated(&meta.results, value)
            .and(known.unwrap_or_else(places))
            .and(self.of_process(meta, &admitted.effects, call.frame.authority()))
            .and(echoed(&admitted.input, &admitted.origins, value));
        self.cleaned(meta, origins, value, fits)
    }

    /// Returns true if a leaf may have read a place whose content was written from untrusted words. Called within the
    /// leaf's step.
    pub(super) fn reads_listed(&self, call: &Call<'_>, admitted: &Admitted) -> bool {
        let (listed, effects) = (self.host.driver.untrusted_places(), &admitted.effects);
        let touched = effects.touches.iter().zip(admitted.places.iter().zip(&admitted.real));
        let reads = |(touch, (place, real)): (&Touch, (&Located, &Place))| {
            touch.access == Access::Read && (listed.hold(real) || listed.hold(&place.place()))
        };
        touched.into_iter().any(reads)
            || effects.process
                && !states_origins(&call.function.meta.results)
                && self.can_read_untrusted(call.frame.authority())
    }

    /// The origins of the failure of a leaf: its message may quote the arguments, or content that the leaf has read.
    /// Called within the leaf's step.
    pub(super) fn failure_origins(&self, call: &Call<'_>, admitted: &Admitted) -> Origins {
        let meta = &call.function.meta;
        match states_untrusted(&meta.results) || !admitted.untrusted.is_empty() {
            true => Origins::untrusted(),
            false => refused(&admitted.origins).and(self.of_process(
                meta,
                &admitted.effects,
                call.frame.authority(),
            )),
        }
    }

    /// The outcome of a composite with the origins of its result.
    pub(super) fn composite_origins(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        outcome: Outcome,
        fits: bool,
    ) -> Outcome {
        let meta = &call.function.meta;
        let knows = matches!(&call.function.body, Implementation::Composite(body) if body.knows_origins());
        let mut origins = outcome.origins;
        let repeats = admitted.process_reads_untrusted && !states_origins(&meta.results);
        if !knows && admitted.origins.is_untrusted() || repeats {
            origins = Origins::untrusted();
        }
        origins = match &outcome.end {
            End::Done(value) => {
                let origins = origins.and(Origins::stated(&meta.results, value));
                self.cleaned(meta, origins, value, fits)
            }
            End::Failed(_) if states_untrusted(&meta.results) => Origins::untrusted(),
            End::Failed(_) => origins.and(refused(&admitted.origins)),
            End::Suspended(_) => origins,
        };
        Outcome { origins, is_source: false, ..outcome }
    }

    /// The origins of a result whose function a process executes: the process may have read an untrusted place.
    fn of_process(&self, meta: &FunctionMeta, effects: &Effects, authority: &Authority) -> Origins {
        match effects.process && !states_origins(&meta.results) && self.can_read_untrusted(authority) {
            true => Origins::untrusted(),
            false => Origins::TRUSTED,
        }
    }

    /// Returns true if a process with that authority can read a place whose content was written from untrusted words.
    pub(super) fn can_read_untrusted(&self, authority: &Authority) -> bool {
        let places = self.host.driver.untrusted_places();
        let mut mounts = authority.view().mounts().iter();
        mounts.any(|mount| authority.bounds().overlaps(&mount.place) && places.touch(&mount.place))
    }

    /// The origins of a value of the program's own functions after its type, if it has no room for instructions, has
    /// cleaned it.
    fn cleaned(&self, meta: &FunctionMeta, origins: Origins, value: &Value, fits: bool) -> Origins {
        let schema = meta.output.as_ref().map(OutputSchema::schema);
        let own = self.is_own(meta) && !matches!(meta.results, ResultOrigin::Foreign);
        match schema.filter(|_| fits && origins.is_untrusted() && own) {
            Some(schema) => cleaned(schema.value(), value).unwrap_or(origins),
            None => origins,
        }
    }

    /// Lists the places that a leaf, or the process of a composite, is about to write, if the words that it writes may be
    /// untrusted. Called before the effect: after a crash the place counts as written.
    ///
    /// # Errors
    /// The list can't be kept.
    pub(super) async fn list_written(&self, call: &Call<'_>, admitted: &Admitted) -> Result<(), Halt> {
        let authority = call.frame.authority();
        let meta = &call.function.meta;
        let mut written = self.carried(authority, admitted);
        let may_repeat = || admitted.process_reads_untrusted || self.can_read_untrusted(authority);
        let of_process = admitted.effects.process
            && (states_untrusted(&meta.results) || !states_origins(&meta.results) && may_repeat());
        if !(admitted.origins.is_untrusted() || admitted.reads_untrusted_place() || of_process) {
            return self.list(written);
        }
        if matches!(call.function.body, Implementation::Leaf(_)) {
            for (place, real) in admitted.destinations() {
                // The names of folders that the call makes are words as well.
                let made = self.folders_made(place).await;
                written.extend([place.place().above(made), real.above(made)]);
            }
        }
        if admitted.effects.process {
            written.extend(writable(authority));
        }
        self.list(written)
    }

    /// The untrusted places in a folder that a call moves, with their new names.
    fn carried(&self, authority: &Authority, admitted: &Admitted) -> Vec<Place> {
        let listed = self.host.driver.untrusted_places();
        let touched = admitted.effects.touches.iter().zip(&admitted.places).zip(&admitted.real);
        let moved = touched.filter(|((touch, _), _)| touch.delete);
        let mut carried = Vec::new();
        for folder in moved.flat_map(|((_, place), real)| [place.place(), real.clone()]) {
            let inside = listed.within(&folder).into_iter().chain(authority.untrusted_within(&folder));
            for rest in inside.filter_map(|place| place.rest(&folder).map(str::to_owned)) {
                for (place, real) in admitted.destinations() {
                    carried.extend([place.place().join(&rest), real.join(&rest)]);
                }
            }
        }
        carried
    }

    /// Number of folders around a file that don't exist, so that writing the file makes them. Roots of mounts, which
    /// the program names, don't count.
    async fn folders_made(&self, file: &Located) -> usize {
        let mut made = 0;
        let mut folder = file.folder();
        while let Some(missing) = folder {
            if !matches!(self.host.files.stat(&missing).await, Ok(None)) {
                break;
            }
            made += 1;
            folder = missing.folder();
        }
        made
    }

    /// Lists every place that a process with that authority can write.
    ///
    /// # Errors
    /// The list can't be kept.
    pub(crate) fn list_writable(&self, authority: &Authority) -> Result<(), Halt> {
        self.list(writable(authority))
    }

    fn list(&self, mut written: Vec<Place>) -> Result<(), Halt> {
        let places = self.host.driver.untrusted_places();
        written.retain(|place| !places.hold(place));
        written.sort_unstable();
        written.dedup();
        if written.is_empty() { Ok(()) } else { places.add(&written).map_err(Halt::Journal) }
    }

    /// The verdict on a call whose words are not trusted. A file of the program does not pre-approve an effect that
    /// these words could steer, unless its rule tests the words themselves. The operator's own rules stay in effect.
    pub(super) fn wary(&self, call: &Call<'_>, admitted: &Admitted, verdict: Verdict) -> Verdict {
        let steered = admitted.origins.greatest() != Origin::Trusted;
        if verdict.rule != Rule::PreApproved || !steered || !self.has_far_effect(call, admitted) {
            return verdict;
        }
        let by_operator = |gate: &Gate, query: &Query<'_>| gate.is_operators(query, &verdict);
        if verdict.vouches() || self.weigh(call, admitted, by_operator) {
            return verdict;
        }
        verdict.steered()
    }

    /// Returns true if a call has an effect that untrusted words must not steer: all but reading, delegation, and
    /// writing in the program's own mounts.
    fn has_far_effect(&self, call: &Call<'_>, admitted: &Admitted) -> bool {
        match call.function.meta.risk {
            Risk::Read | Risk::Delegate => false,
            Risk::Network | Risk::Exec | Risk::Destructive => true,
            Risk::Write => {
                let touched: Vec<Touched<'_>> = admitted.touched().collect();
                not_own(&call.function.meta, &touched).is_some()
            }
        }
    }

    /// The message for the operator about the words of a call.
    pub(super) fn steering(&self, call: &Call<'_>, admitted: &Admitted) -> Option<Box<Steering>> {
        let steered = !admitted.origins.is_trusted();
        steered.then(|| Box::new(Steering::of(call.frame.trail(), &admitted.input)))
    }
}

impl Admitted {
    /// Returns true if the call reads a path whose content is untrusted.
    pub(super) fn reads_untrusted_place(&self) -> bool {
        let touches = &self.effects.touches;
        // A path that is removed is read where it is moved.
        let reads = |at: &&usize| touches.get(**at).is_some_and(|t| t.access == Access::Read || t.delete);
        self.untrusted.iter().any(|at| reads(&at))
    }

    /// The files that the call writes, each with its real place.
    fn destinations(&self) -> impl Iterator<Item = (&Located, &Place)> {
        let touched = self.effects.touches.iter().zip(self.places.iter().zip(&self.real));
        touched.filter(|(touch, _)| touch.access == Access::Write && !touch.delete).map(|(_, place)| place)
    }

    /// The places that the call touches, in the form that rules match.
    pub(super) fn touched(&self) -> impl Iterator<Item = Touched<'_>> {
        let touched = self.places.iter().zip(&self.real).zip(&self.effects.touches);
        touched.map(|((place, real), touch)| Touched::new(place, real, touch))
    }
}

/// The origins of the failure of a call that has not run: its message may quote the arguments.
fn refused(arguments: &Origins) -> Origins {
    match arguments.is_untrusted() {
        true => Origins::untrusted(),
        false => Origins::TRUSTED,
    }
}

/// The outcome of a call that did not run, with these arguments.
pub(super) fn unmade(end: End, arguments: &Origins) -> Outcome {
    let origins = match &end {
        End::Failed(_) => refused(arguments),
        End::Done(_) | End::Suspended(_) => Origins::TRUSTED,
    };
    Outcome { origins, ..Outcome::free(end) }
}

/// Returns true if a function states that others wrote a part of its results.
fn states_untrusted(results: &ResultOrigin) -> bool {
    match results {
        ResultOrigin::Trusted | ResultOrigin::User => false,
        ResultOrigin::Untrusted | ResultOrigin::Foreign => true,
        ResultOrigin::Fields(fields) => !fields.is_empty(),
    }
}

/// Returns true if the author of a function states which parts of its results others wrote. The statement is valid
/// whatever its process reads.
fn states_origins(results: &ResultOrigin) -> bool {
    matches!(results, ResultOrigin::Fields(_))
}

/// The places that a process with that authority can write: the writable mounts that the program declares.
fn writable(authority: &Authority) -> Vec<Place> {
    let mounts = authority.view().mounts().iter();
    let written = mounts.filter(|mount| {
        mount.access == Access::Write
            && mount.origin == MountOrigin::Declared
            && authority.bounds().overlaps(&mount.place)
    });
    written.map(|mount| mount.place.clone()).collect()
}

impl Trail {
    /// The origins of the end of a call that has received these contents.
    pub fn ends(&self, end: &End) -> Origins {
        match end {
            End::Done(value) => self.emits(value),
            End::Failed(_) if self.is_tainted() => Origins::untrusted(),
            End::Failed(_) | End::Suspended(_) => Origins::TRUSTED,
        }
    }
}

impl Content {
    /// The result of a call of that function, or its failure as its caller reads it. `None` if the call waits.
    pub(crate) fn of_outcome(
        call: CallPath,
        function: &FunctionMeta,
        outcome: &Outcome,
        input: &Arc<Value>,
    ) -> Option<Self> {
        let (ending, origins) = (&outcome.end.to_ending(), outcome.origins.clone());
        let source = outcome.is_source.then_some(input);
        let content = Self::result(call, Arc::clone(&function.name), ending, origins, source)?;
        let by_user = matches!(function.results, ResultOrigin::User) && matches!(ending, Ending::Output(_));
        Some(if by_user { content.of_user() } else { content })
    }

    /// The result of a call, or its failure as its caller reads it. `source` are the arguments of the call, if its result is
    /// the content that they name. `None` if the call waits.
    pub fn result(
        call: CallPath,
        function: Arc<str>,
        ending: &Ending,
        origins: Origins,
        source: Option<&Arc<Value>>,
    ) -> Option<Self> {
        let value = match ending {
            Ending::Output(value) => Arc::clone(value),
            Ending::Failure(failure) => Arc::new(Value::String(show_failure(failure))),
            Ending::Suspended => return None,
        };
        Some(Self { kind: ContentKind::Result, call, function, value, origins, source: source.cloned() })
    }
}
