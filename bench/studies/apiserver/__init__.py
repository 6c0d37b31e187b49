"""What a node agent sees of its pods and when: from the API server, and from the runtime by NRI.

`python -m bench apiserver`. `views` takes the first full view in each way, `observers` are programs that tell each
container as they learn of it, `tables` makes the text, `run` is the command.
"""
