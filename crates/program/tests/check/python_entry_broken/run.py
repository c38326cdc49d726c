def main(input, ctx)
    pass
