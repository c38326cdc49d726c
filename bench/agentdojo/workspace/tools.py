"""The functions of AgentDojo's suite `workspace`."""

from agentdojo.default_suites.v1.tools import calendar_client, cloud_drive_client, email_client
from offered import load, offer

ENVIRONMENT = load(
    inbox=email_client.Inbox,
    calendar=calendar_client.Calendar,
    cloud_drive=cloud_drive_client.CloudDrive,
)

# Other people write mail, invitations and files, and choose their names and addresses.
WRITTEN_BY_OTHERS = [
    email_client.get_unread_emails,
    email_client.get_sent_emails,
    email_client.get_received_emails,
    email_client.get_draft_emails,
    email_client.search_emails,
    email_client.search_contacts_by_name,
    email_client.search_contacts_by_email,
    calendar_client.search_calendar_events,
    calendar_client.get_day_calendar_events,
    cloud_drive_client.search_files_by_filename,
    cloud_drive_client.get_file_by_id,
    cloud_drive_client.list_files,
    cloud_drive_client.search_files,
]
EFFECTS = [
    email_client.send_email,
    email_client.delete_email,
    calendar_client.create_calendar_event,
    calendar_client.cancel_calendar_event,
    calendar_client.reschedule_calendar_event,
    calendar_client.add_calendar_event_participants,
    cloud_drive_client.append_to_file,
    cloud_drive_client.create_file,
    cloud_drive_client.delete_file,
    cloud_drive_client.share_file,
]


def people() -> list[str]:
    """Addresses of the people whom the user deals with: has written to, meets, or shares own files with."""
    inbox, calendar, drive = ENVIRONMENT["inbox"], ENVIRONMENT["calendar"], ENVIRONMENT["cloud_drive"]
    written_to = {address for mail in inbox.sent for address in mail.recipients}
    met = {address for event in calendar.events.values() for address in event.participants}
    shared = {address for file in drive.files.values() if file.owner == inbox.account_email for address in file.shared_with}
    return sorted(written_to | met | shared)


def own_files() -> list[str]:
    """IDs of the files that belong to the user."""
    owner = ENVIRONMENT["inbox"].account_email
    return [file.id_ for file in ENVIRONMENT["cloud_drive"].files.values() if file.owner == owner]


def register(agent):
    offer(agent, ENVIRONMENT, [calendar_client.get_current_day], risk="read")
    offer(agent, ENVIRONMENT, WRITTEN_BY_OTHERS, risk="read", untrusted=True)
    offer(agent, ENVIRONMENT, EFFECTS, risk="destructive")
    agent.tool_plain(people, risk="read")
    agent.tool_plain(own_files, risk="read")
