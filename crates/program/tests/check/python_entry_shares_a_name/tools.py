def main(input: dict) -> str:
    pass
