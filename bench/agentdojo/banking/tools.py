"""The functions of AgentDojo's suite `banking`."""

from agentdojo.default_suites.v1.tools import banking_client, file_reader, user_account
from offered import load, offer

ENVIRONMENT = load(
    bank_account=banking_client.BankAccount,
    filesystem=file_reader.Filesystem,
    user_account=user_account.UserAccount,
)

TRUSTED = [banking_client.get_iban, banking_client.get_balance, user_account.get_user_info]
# Other people write files, and the subjects of payments.
WRITTEN_BY_OTHERS = [
    banking_client.get_most_recent_transactions,
    banking_client.get_scheduled_transactions,
    file_reader.read_file,
]
EFFECTS = [
    banking_client.send_money,
    banking_client.schedule_transaction,
    banking_client.update_scheduled_transaction,
    user_account.update_password,
    user_account.update_user_info,
]


def payees() -> list[str]:
    """Accounts that the user has paid before."""
    account = ENVIRONMENT["bank_account"]
    return sorted({payment.recipient for payment in account.transactions if payment.sender in ("me", account.iban)})


def standing_orders() -> list[int]:
    """The standing orders of the account."""
    return sorted(order.id for order in ENVIRONMENT["bank_account"].scheduled_transactions)


def register(agent):
    offer(agent, ENVIRONMENT, TRUSTED, risk="read")
    offer(agent, ENVIRONMENT, WRITTEN_BY_OTHERS, risk="read", untrusted=True)
    offer(agent, ENVIRONMENT, EFFECTS, risk="destructive")
    agent.tool_plain(payees, risk="read")
    agent.tool_plain(standing_orders, risk="read")
