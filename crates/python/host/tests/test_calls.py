import unittest

from harness import HostTest


class Calls(HostTest):
    def test_a_plain_function_is_called(self) -> None:
        module = self.module("def add(a: int, b: int) -> int:\n    return a + b\n")
        self.assertEqual(self.host.value(module, "add", plain=True, a=2, b=3), 5)

    def test_discovery_then_call(self) -> None:
        module = self.module(
            '''
            def add(a: int, b: int = 1) -> int:
                """Adds.

                Args:
                    a: the first
                    b: the second
                """
                return a + b
            '''
        )
        report = self.host.load(module)[0]
        self.assertIsNone(report["error"], report)
        self.assertEqual(report["exposes"], "plain")
        (function,) = report["functions"]
        self.assertEqual(
            function["input"],
            {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "description": "the first"},
                    "b": {"type": "integer", "description": "the second", "default": 1},
                },
                "required": ["a"],
                "additionalProperties": False,
            },
        )
        self.assertEqual(function["description"], "Adds.")
        self.assertTrue(function["plain"])
        self.assertEqual(report["files"], [module["path"]])
        self.assertEqual(self.host.value(module, function["function"], plain=True, a=2), 3)

    def test_context_calls_back(self) -> None:
        module = self.module(
            """
            from llm_do import ToolContext
            def f(ctx: ToolContext, n: int):
                return [ctx.call("w", {"n": i}) for i in range(n)] + ctx.call_all([("a", {"x": 1}), ("b", {"x": 2})])
            async def g(ctx: ToolContext, n: int):
                return [await ctx.call("w", n=i) for i in range(n)] + await ctx.call_all([("a", {"x": 1}), ("b", {"x": 2})])
            """
        )
        for name in ("f", "g"):
            self.assertEqual(self.host.value(module, name, n=2), [{"n": 0}, {"n": 1}, {"x": 1}, {"x": 2}])

    def test_exceptions(self) -> None:
        module = self.module("def f():\n    raise ValueError('no')\n")
        error = self.error(self.host.call(module, "f"), "exception")
        self.assertEqual(
            error["frames"],
            [{"file": module["path"], "line": 2, "function": "f", "text": "raise ValueError('no')"}],
        )


if __name__ == "__main__":
    unittest.main()
