//! Actions of the user beside the next message of a conversation: attaching a file, calling a worker
//! (`docs/reference/conversations.md`).

use super::{attachments, prepared::Prepared};
use crate::{
    attachment::Attachment,
    authority::Access,
    call_path::CallPath,
    conversation::{Conversation, Joining},
    definition::WorkerDefinition,
    driver::{CutOff, Step, StepEnd},
    engine::{Call, Frame},
    function::CompositeCall,
    journal::{RecordKind, UsedDefinition},
    model::{Part, Usage},
    origin::{Content, ContentKind, Origin, Origins},
    outcome::{End, Halt, Stop},
    source::FunctionSource,
    step_name::StepName,
};
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

/// A file that the user attaches.
#[derive(Clone, Copy)]
pub(super) struct Attaching<'a> {
    /// The path, or the name of a file with a content.
    pub(super) file: &'a str,
    /// The content of the file, if it is not to be read.
    pub(super) content: Option<&'a Attachment>,
}

/// Takes a file that the user attaches with the message of that number. It joins the next message, or the record has
/// the reason why not.
pub(super) async fn attach(
    worker: &WorkerDefinition,
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    conversation: &mut Conversation,
    number: u32,
    attaching: Attaching<'_>,
) -> Result<(), Stop> {
    let name = StepName::Attach(number);
    let step = Step {
        path: call.path,
        name: name.clone(),
        intent: None,
        deadline: None,
        cut_off: CutOff::Again,
        run: Box::pin(async {
            let taken = take(worker, prepared, call, conversation.joining(), attaching).await;
            taken.unwrap_or_else(|reason| {
                let reason = call.engine.host().redact.text(&reason).into();
                RecordKind::NotAttached { reason }
            })
        }),
    };
    match call.engine.host().driver.step(step).await?.end {
        StepEnd::Done(RecordKind::Attached { part, bytes, origin }) => {
            conversation.joins(attached(call.path, &worker.id, number, part, bytes, origin));
        }
        StepEnd::Done(RecordKind::NotAttached { .. }) | StepEnd::TimedOut => {}
        StepEnd::Done(other) => return Err(Halt::unexpected(call.path, &name, &other).into()),
    }
    Ok(())
}

/// An attached file, in the form in which it joins the next message of the conversation at `path`.
pub(crate) fn attached(
    path: &CallPath,
    worker: &Arc<str>,
    number: u32,
    part: Part,
    bytes: u64,
    origin: Origin,
) -> Joining {
    let content = Content {
        kind: ContentKind::Attachments,
        call: path.clone(),
        function: Arc::clone(worker),
        value: Arc::new(name(&part).into()),
        origins: Origins::whole(origin),
        source: None,
    };
    Joining { number, part, content, said: Vec::new(), bytes: Some(bytes) }
}

/// The name of an attached file.
fn name(part: &Part) -> &str {
    match part {
        Part::Attachment { name, .. } => name,
        Part::Blob(blob) => &blob.name,
        _ => "",
    }
}

/// A file with its content, or with as much of it as is needed to see that it is too long.
struct Taken<'a> {
    name: Cow<'a, str>,
    bytes: Cow<'a, [u8]>,
    /// Size of the file in bytes.
    size: u64,
    of_others: bool,
}

/// Makes the record of a file that joins the next message.
///
/// # Errors
/// The file does not join; the error has the reason.
async fn take(
    worker: &WorkerDefinition,
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    joining: &[Joining],
    attaching: Attaching<'_>,
) -> Result<RecordKind, String> {
    let host = call.engine.host();
    let Taken { name: file, bytes, size, of_others } = match attaching.content {
        Some(content) => {
            let listed = host.driver.untrusted_places();
            let is_of_others = |frame: &Frame| content.is_of_others(frame.authority(), listed);
            Taken {
                name: Cow::Borrowed(&content.file.name),
                bytes: Cow::Borrowed(&content.file.data),
                size: content.file.data.len() as u64,
                of_others: is_of_others(call.frame) || is_of_others(&prepared.frame),
            }
        }
        None => read(worker, prepared, call, attaching.file).await?,
    };
    let others = joining.iter().filter_map(|other| Some((name(&other.part), other.bytes?)));
    let sizes: Vec<(&str, u64)> = others.chain([(&*file, size)]).collect();
    worker.attachments.admits(&format!("`{}`", worker.id), &sizes)?;
    let can = prepared.model.capabilities();
    let mut part = attachments::part(&file, &bytes, can).map_err(|failure| failure.message)?;
    if let Part::Attachment { text, .. } = &mut part
        && let Cow::Owned(clean) = host.redact.text(text)
    {
        *text = clean.into();
    }
    let of_others = of_others || worker.untrusted.attachments;
    let origin = if of_others { Origin::Untrusted } else { Origin::Trusted };
    Ok(RecordKind::Attached { part, bytes: size, origin })
}

/// Reads a file that the caller of the conversation can see.
async fn read(
    worker: &WorkerDefinition,
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    file: &str,
) -> Result<Taken<'static>, String> {
    let host = call.engine.host();
    let place = call.frame.authority().locate(file, Access::Read).map_err(|refusal| refusal.to_string())?;
    let most = worker.attachments.max_total_bytes.saturating_add(1);
    let (bytes, size) = host.files.read(&place, 0, most).await.map_err(|error| error.to_string())?;
    let named = place.place();
    let real =
        host.files.real(&place, true).await.map_or_else(|_| named.clone(), |rest| place.base.join(&rest));
    let listed = host.driver.untrusted_places();
    let of_others = place.is_untrusted(&real)
        || [&named, &real]
            .into_iter()
            .any(|at| listed.hold(at) || prepared.frame.authority().is_untrusted(at));
    Ok(Taken { name: place.path.name().to_owned().into(), bytes: bytes.into(), size, of_others })
}

/// Makes the call of a worker that the user makes with the message of that number. `from` is the frame that has called the
/// conversation.
pub(super) async fn run(
    call: &CompositeCall<'_>,
    from: &Frame,
    conversation: &mut Conversation,
    number: u32,
    worker: &Arc<str>,
    input: &Arc<Value>,
    usage: &mut Usage,
) -> Result<(), Stop> {
    let (engine, path) = (call.engine, call.path.by_user(number));
    let host = engine.host();
    let definition = match host.definitions.named_by(&FunctionSource::Program, worker) {
        Ok(definition) => definition,
        Err(error) => {
            let note = RecordKind::Note { text: format!("/run {worker}: {error}").into() };
            host.driver.record(&path, StepName::Definition, note)?;
            return Ok(());
        }
    };
    let used = RecordKind::Definition(UsedDefinition::of(&definition));
    host.driver.record(&path, StepName::Definition, used)?;
    let function = super::function(&definition, worker, false, None);
    let frame = match host.for_client {
        // A worker that is refused has no view to name things in. Its call fails.
        true => from.of_operator().seeing_as(&definition).unwrap_or_else(|_| from.of_operator()),
        false => from.of_operator(),
    };
    let outcome = engine.call(Call {
        path: path.clone(),
        function: &function,
        input: Arc::clone(input),
        frame: &frame,
        attachments: &[],
        by_operator: true,
    });
    let outcome = Box::pin(outcome).await?;
    *usage = usage.plus(outcome.usage);
    if let End::Suspended(waiting) = outcome.end {
        return Err(Stop::Suspended(waiting));
    }
    let (name, ending) = (Arc::clone(&function.meta.name), outcome.end.to_ending());
    let said = Content::said(&path, &name, &outcome.said).collect();
    let source = outcome.is_source.then_some(input);
    if let Some(result) = Content::result(path, name, &ending, outcome.origins, source) {
        conversation.ran(number, result, said);
    }
    Ok(())
}
