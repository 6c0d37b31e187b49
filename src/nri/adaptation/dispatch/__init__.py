"""One event on its way through all plugins: from the runtime's call to one merged, validated answer.

Reading order: `dispatcher` (the loop), `order` (turns), `invoker` (one plugin asked, and every failure), `event` (its
kinds, what becomes of answers, the reply): the whole way of any event. A creation also passes `validation`.
"""
