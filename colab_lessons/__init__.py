"""What only the lessons need: checks of exercises, shared networks and data, recorded results.

You don't need this package to use the helper. Each module answers one question:

    exercises   Is my answer right, and if not, what should I look at?
    scoreboard  How long does the course's job take, here and elsewhere?
    shakespeare, training, weights  What does it train on, how, and what came of it?
    models      Which networks do the lessons share?
    conv_networks  On which networks are plans tried?
    data        Which data do they train on?
    reference   What did other hardware measure?
    replay      Which cells can run here, and what did the others show elsewhere?
"""
